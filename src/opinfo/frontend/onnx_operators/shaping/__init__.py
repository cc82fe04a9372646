"""Operators that move elements, or change sizes."""
