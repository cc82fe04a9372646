"""Composites that turn elements by their positions."""
