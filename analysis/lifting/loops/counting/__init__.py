"""Counters of loops, and counts in closed form."""
