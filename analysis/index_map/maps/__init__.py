"""Index maps as terms and as TVM's expressions."""
