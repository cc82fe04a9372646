"""Arithmetic and reductions, element by element."""
