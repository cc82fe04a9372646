"""Compiled kernels on disk."""
