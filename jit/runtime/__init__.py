"""Sessions: serve calls of a compiled model, and manage its kernels."""
