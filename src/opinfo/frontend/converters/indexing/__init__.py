"""Lookups and updates at indices and masks."""
