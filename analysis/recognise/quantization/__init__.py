"""Conversions to integers with scales, and back: by tensor, by axis, by group."""
