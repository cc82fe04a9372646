"""Tensors that are computed from coordinates and sizes: fills, ranges, grids, windows."""
