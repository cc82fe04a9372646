"""The reader: a process with limits that reads model files."""
