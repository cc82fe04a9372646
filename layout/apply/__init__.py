"""A plan, applied to a module."""
