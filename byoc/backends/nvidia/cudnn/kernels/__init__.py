"""Kernels of our own for convolutions: what follows them, layouts, groups."""
