"""NVIDIA's libraries: shared parts, and a module for each backend."""
