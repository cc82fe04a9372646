"""Attention of float32 by a kernel of our own."""
