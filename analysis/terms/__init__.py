"""Terms: interned expressions, their normal form, bounds and rewriting."""

from . import integer, show
from .term import CallTerm, Const, Fold, Int, Load, Reduce, TensorVar, Var
from .traversal import subterms

__all__ = [
    "CallTerm",
    "Const",
    "Fold",
    "Int",
    "Load",
    "Reduce",
    "TensorVar",
    "Var",
    "integer",
    "show",
    "subterms",
]
