"""Time models that are dispatched to backends, against runtimes."""
