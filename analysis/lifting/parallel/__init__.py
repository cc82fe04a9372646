"""Iterations that run at the same time: threads, vectors, and whether two of them meet."""
