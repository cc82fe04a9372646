"""Regions of models on a GPU, against torch."""
