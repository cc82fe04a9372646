"""Elementwise operators, with broadcasting: activations, conversions, selections."""
