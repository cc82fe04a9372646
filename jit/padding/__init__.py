"""Prove that a dimension of a kernel may be padded."""

from .pad_safe import pad_safe
from .padding_claim import Grown, Padded

__all__ = ["Grown", "Padded", "pad_safe"]
