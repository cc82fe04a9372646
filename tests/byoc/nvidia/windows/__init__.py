"""Convolutions of any window, in forms that have kernels of our own."""
