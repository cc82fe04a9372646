"""Kernels of steps that share rows: sums, norms and softmax, along rows and across them."""
