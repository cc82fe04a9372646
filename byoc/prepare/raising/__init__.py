"""Raise PrimFuncs to operators: one by one, products of groups, and products with few bits."""
