"""Symbolic dimensions of a PrimFunc, and ranges of their values."""
