"""The subset of TVMScript that files may use."""
