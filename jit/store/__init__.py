"""The kernel store: compiled kernels on disk."""
