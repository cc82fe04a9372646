"""Code for the stub of NVIDIA's libraries is compiled once for all tests."""

from ...common.kept_objects import kept_objects

__all__ = ["kept_objects"]
