"""Operations on literals that can be evaluated: the result is exact, or its rounding prescribed."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping

from .make_terms import const
from .nodes import Const, Int, Term

#: Each floating-point type represents all integers up to here.
WHOLE = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}

_FOLDED: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
}  # fmt: skip


def is_const(term: Term, value: float) -> bool:
    """Return whether the term is this number, whatever its type."""
    if isinstance(term, Int):
        return term.const is not None and term.const == value
    return isinstance(term, Const) and not isinstance(term.value, str) and term.value == value


def is_literal(term: Term) -> bool:
    """Return whether a term is a literal of any type."""
    return isinstance(term, Const) or (isinstance(term, Int) and term.const is not None)


def whole_float(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """The cast of an integer literal to a floating-point type that has it."""
    if dtype not in WHOLE or not isinstance(args[0], Int):
        return None
    value = args[0].const
    return const(float(value), dtype) if value is not None and abs(value) <= WHOLE[dtype] else None


def whole_result(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """The result on two whole literals, if its dtype has it exactly; a zero could have a sign."""
    if dtype not in WHOLE or len(args) != 2 or not all(isinstance(a, Const) for a in args):
        return None
    a, b = (a.value for a in args)  # type: ignore[attr-defined]
    if not all(isinstance(v, float) and v.is_integer() for v in (a, b)):
        return None
    value = _FOLDED[op](a, b)
    return const(value, dtype) if 0 < abs(value) <= WHOLE[dtype] else None


def root(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """The root of a literal as its dtype has it: IEEE 754 prescribes how a root is rounded."""
    value = _root(args[0].value, dtype) if isinstance(args[0], Const) else None
    return None if value is None else const(value, dtype)


def _root(value: object, dtype: str) -> float | None:
    if not isinstance(value, float) or not 0 < value < math.inf:
        return None
    root = math.sqrt(value)
    if dtype == "float64" or (root.is_integer() and root * root == value):
        return root
    if dtype == "float32" and struct.unpack("f", struct.pack("f", value))[0] == value:
        return float(struct.unpack("f", struct.pack("f", root))[0])  # of 24 bits: rounded once
    return None
