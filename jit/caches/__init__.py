"""Caches of models that generate: written in place, and kept between calls."""
