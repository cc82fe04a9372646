"""Operators whose buffers were moved to random layouts: what is read back must compute the same."""
