"""Inverses of index maps: candidates, and their certificates."""
