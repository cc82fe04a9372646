"""Rewrites for backends of a GPU."""
