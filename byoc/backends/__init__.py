"""The built-in backends."""
