"""Prove that a dimension of a kernel may be padded."""

from .claim import Grown, Padded
from .pad_safe import pad_safe

__all__ = ["Grown", "Padded", "pad_safe"]
