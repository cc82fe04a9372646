"""Lift a PrimFunc to a tensor expression, by symbolic execution."""
