"""May a dimension of a kernel be padded? What of it was proved, or why not."""

from .claim import Grown, Padded
from .pad_safe import pad_safe

__all__ = ["Grown", "Padded", "pad_safe"]
