"""Kernels specialised for the shapes that really come in."""
