"""Checks of every model file: one-line errors, shapes, types."""
