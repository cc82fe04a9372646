"""Products that share an operand, as one product."""
