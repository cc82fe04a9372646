"""Sorts, and searches in sorted sequences."""
