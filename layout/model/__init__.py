"""Layouts: digits, strings, orders, sizes."""
