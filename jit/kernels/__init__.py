"""Specialised kernels, and the process that compiles them."""
