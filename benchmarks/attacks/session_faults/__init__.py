"""A `Session` under attack."""
