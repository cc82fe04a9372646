"""Kernels for declared shapes in one PrimFunc, which chooses by the shape."""
