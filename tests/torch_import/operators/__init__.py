"""Operators of torch."""
