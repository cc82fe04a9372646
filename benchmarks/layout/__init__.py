"""Planning layouts: remaining conversions, speed and correctness."""
