"""Conditions on symbolic sizes, checked when a model is called."""
