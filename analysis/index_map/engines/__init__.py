"""Provers of what must hold for an index map, and points that refute it."""
