"""Streams of requests of many shapes: `python -m benchmarks.gpu.stream`."""
