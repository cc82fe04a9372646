"""Loops that would read memory that nothing has written."""
