"""Planning layouts: what is left, how fast, how right."""
