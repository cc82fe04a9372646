"""Operators whose data has channels and spatial axes, in any layout."""
