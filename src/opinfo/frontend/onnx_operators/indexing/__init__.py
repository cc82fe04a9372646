"""Operators that take elements by index, and indices counted from the end."""
