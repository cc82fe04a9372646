"""Kernels: what a loop nest computes, independent of the loop order."""
