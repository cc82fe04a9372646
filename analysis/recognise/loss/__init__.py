"""Losses of classifiers and their gradients."""
