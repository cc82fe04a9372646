"""The process with limits that reads files."""
