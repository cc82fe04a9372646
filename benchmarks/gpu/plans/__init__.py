"""Times of plans of cuDNN's attention: `python -m benchmarks.gpu.plans`."""
