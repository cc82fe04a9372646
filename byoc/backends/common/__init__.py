"""Shared parts of library backends: packages, C++ of regions, factors by channel."""
