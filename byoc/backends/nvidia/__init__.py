"""NVIDIA's libraries: what their backends share, and a module for each of them."""
