"""Solving equations between index expressions."""
