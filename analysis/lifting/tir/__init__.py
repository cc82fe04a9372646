"""TIR's nodes, expressions and annotations as terms."""
