"""A module as backends like it."""
