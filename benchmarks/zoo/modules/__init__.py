"""Torch modules after their papers, for architectures that no installed package has."""
