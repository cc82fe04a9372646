"""The default choice against the tuned one: `python -m benchmarks.gpu.tuning`."""
