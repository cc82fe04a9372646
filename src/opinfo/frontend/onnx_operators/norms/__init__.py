"""Normalisations over channels, groups and layers."""
