"""Operators on images: resizes, samples at coordinates, regions, boxes."""
