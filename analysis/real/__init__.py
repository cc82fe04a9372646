"""Terms in real arithmetic: one form for terms that differ only by rounding."""

from .budget import TooLarge
from .form import real
from .idioms import idiomatic

__all__ = ["TooLarge", "idiomatic", "real"]
