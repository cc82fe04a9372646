"""Norms and softmax."""
