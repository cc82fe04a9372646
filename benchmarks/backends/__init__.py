"""Dispatching and compiling: the regions of backends, and their speed."""
