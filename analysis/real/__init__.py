"""Terms in real arithmetic: one form for terms that differ only by rounding."""

from .form import real
from .idioms import idiomatic
from .sums.budget import TooLarge

__all__ = ["TooLarge", "idiomatic", "real"]
