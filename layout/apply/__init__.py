"""Applying a plan to a module."""
