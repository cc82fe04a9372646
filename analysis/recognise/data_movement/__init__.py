"""Operators that move elements to other coordinates: reshapes, slices, pads, layouts."""
