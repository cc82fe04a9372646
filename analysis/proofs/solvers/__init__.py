"""Deciding a condition over integers: at every point, or by Z3."""
