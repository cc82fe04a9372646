"""One kernel at one shape, and the process that compiles it."""
