"""Calls of whole models as CUDA graphs."""
