"""Terms in real arithmetic: one form for what rounding alone tells apart."""

from .budget import TooLarge
from .form import real
from .idioms import idiomatic

__all__ = ["TooLarge", "idiomatic", "real"]
