"""Extents of regions: symbols, and the conditions on them."""
