"""How a node is converted: the converters by operator, those of TVM, and in half types."""
