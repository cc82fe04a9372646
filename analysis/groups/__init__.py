"""Kernels whose blocks walk over tiles of groups of rows, as one PrimFunc of one group."""
