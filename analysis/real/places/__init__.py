"""Sums and extremes written out at each place of a small output, and one loop fitted to them."""
