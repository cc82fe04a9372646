"""A model compiled while one thing fails."""
