"""Files that try to run code or to write, or to make their reader crash or hang."""
