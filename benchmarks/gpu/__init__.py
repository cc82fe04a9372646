"""Whole models on an NVIDIA GPU; `python -m benchmarks.gpu --help`."""
