"""Inside a process that reads a model: what it may do, and where it is if it stops."""
