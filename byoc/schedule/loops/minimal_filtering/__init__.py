"""Convolutions of 3x3 windows by Winograd's minimal filtering."""
