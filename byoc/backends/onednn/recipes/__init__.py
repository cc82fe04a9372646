"""Regions of oneDNN as recipes, by their first operator."""
