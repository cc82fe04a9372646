"""Formulas of one element of a narrow type, compared at all of its values.

    float16(x) * 0.25 = float16(min(max(float32(x) * 0.25, -65504), 65504))        for x of int8

Only operations are allowed that IEEE 754 rounds correctly, and no product in a sum, so that the
values are those of the program however it is compiled. They are compared bit for bit.
"""

from __future__ import annotations

import numpy as np

from ...terms.evaluate import Array, Unevaluable, evaluate
from ...terms.term import CallTerm, Const, Int, Load, TensorVar, Term
from ...terms.traversal import free

#: Narrow types, and the types of intermediate values.
_NARROW = frozenset({"int8", "uint8", "int16", "uint16"})
_TYPES = _NARROW | {"bool", "float16", "float32", "float64", "int", "int32", "int64"}
_EXACT = frozenset({"add", "sub", "mul", "div", "neg", "abs", "min", "max", "ite", "and", "or",
                    "not", "lt", "le", "gt", "ge", "eq", "ne", "ge0", "eq0", "floor", "ceil",
                    "trunc", "round", "cast", "bitand", "bitor", "bitxor", "bitnot", "shl", "shr",
                    "floordiv", "floordiv_elem"})  # fmt: skip
#: Formulas with more sub-terms are not evaluated.
_MOST = 60


def equal_at_all_values(a: Term, b: Term) -> bool:
    """Return whether two formulas of one narrow element have the same bits at all its values."""
    if len(a.reads) != 1 or a.reads != b.reads or a.dtype != b.dtype:
        return False
    (tensor,) = a.reads
    if tensor.dtype not in _NARROW:
        return False
    loads: set[Load] = set()
    for term in (a, b):
        parts = list(_formula(term))
        if len(parts) > _MOST or not all(map(_is_exact, parts)):
            return False
        loads |= {s for s in parts if isinstance(s, Load)}
    return len(loads) == 1 and _same_values(a, b, tensor)


def _formula(term: Term) -> list[Term]:
    """The sub-terms down to loads, without the indices of these."""
    out, seen, stack = list[Term](), {term}, [term]
    while stack and len(out) <= _MOST:
        current = stack.pop()
        out.append(current)
        for child in () if isinstance(current, Load) else current.children:
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return out


def _is_exact(term: Term) -> bool:
    if term.dtype not in _TYPES:
        return False
    if isinstance(term, CallTerm):
        return term.op in _EXACT and not _is_undefined(term) and not _is_contracted(term)
    return isinstance(term, (Const, Int, Load))


def _is_undefined(call: CallTerm) -> bool:
    """Whether a cast of a float to an integer may leave the integer's range."""
    return call.op == "cast" and "int" in call.dtype and "float" in call.args[0].dtype


def _is_contracted(call: CallTerm) -> bool:
    """Whether compilers may round a product and a sum once, as a fused multiply-add."""
    if call.op not in ("add", "sub") or "float" not in call.dtype:
        return False
    args = [a.args[0] if isinstance(a, CallTerm) and a.op == "neg" else a for a in call.args]
    return any(isinstance(a, CallTerm) and a.op == "mul" for a in args)


def _same_values(a: Term, b: Term, tensor: TensorVar) -> bool:
    info = np.iinfo(tensor.dtype)
    values = np.arange(info.min, info.max + 1).astype(tensor.dtype)

    def read(_: TensorVar, indices: tuple[Array, ...]) -> Array:
        return values

    place = dict.fromkeys(free(a) | free(b), 0)  # the element's, which is any
    try:
        x, y = (evaluate(t, place, read) for t in (a, b))
    except (Unevaluable, OverflowError):
        return False
    if x.dtype != y.dtype or x.shape != y.shape or x.shape != values.shape:
        return False
    return x.tobytes() == y.tobytes()
