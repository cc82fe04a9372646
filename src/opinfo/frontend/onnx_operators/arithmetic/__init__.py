"""Arithmetic that TVM computes for some dtypes or some values only."""
