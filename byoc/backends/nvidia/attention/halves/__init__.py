"""Attention of halves by a kernel of our own, for few queries and keys."""
