"""Convolutions written by hand."""
