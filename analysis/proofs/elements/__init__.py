"""Equality of formulas for all values of the elements that they read."""
