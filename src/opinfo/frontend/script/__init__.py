"""TVMScript files, read as data."""
