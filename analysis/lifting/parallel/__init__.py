"""Concurrent iterations: threads and vectors, and whether they race."""
