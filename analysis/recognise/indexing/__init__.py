"""Reads and updates at indices that are data."""
