"""Patterns over recovered operators."""
