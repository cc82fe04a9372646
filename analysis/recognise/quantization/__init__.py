"""Quantisation and dequantisation: by tensor, by axis, by group."""
