"""Prove that a dimension of a kernel may be padded."""

from .pad_safe import pad_safe
from .padding_claim import GrownParameter, PaddingProof

__all__ = ["GrownParameter", "PaddingProof", "pad_safe"]
