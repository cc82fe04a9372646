"""Kernels of our own for attention of language models, on CPUs."""
