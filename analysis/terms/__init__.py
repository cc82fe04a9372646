"""Terms: interned expressions, their normal form, bounds and rewriting."""

from . import integer, show

__all__ = ["integer", "show"]
