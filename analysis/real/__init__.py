"""Terms in real arithmetic: one form for what rounding alone tells apart."""

from .form import real
from .idioms import idiomatic

__all__ = ["idiomatic", "real"]
