"""Checks of every model file: one-line errors, shapes, types, limits of the process."""
