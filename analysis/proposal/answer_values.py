"""Values in an answer: plain Python, and TIR over the PrimFunc's own variables.

Inside the analysis a size is a term, the same for PrimFuncs that are structurally equal; an answer
that leaves it is about one PrimFunc, and its sizes are that PrimFunc's variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..lifting.tir.node import items, script
from ..terms.term import Int, TensorVar, Var

Leaves = Mapping[Var, Any]


def variables(params: Sequence[TensorVar | Var], func: Any) -> dict[Var, Any]:
    """The TIR expression of each size and scalar of a PrimFunc, of int64 as Relax has them."""
    found: dict[Var, Any] = {}
    for known, p in zip(params, items(func.params), strict=True):
        if isinstance(known, Var):
            found.setdefault(known, _wide(p))
        elif is_buffer_var(p):
            for e, dim in zip(known.shape, items(p.ty.shape), strict=True):
                if isinstance(e.atom, Var) and isinstance(dim, tirx.Var):
                    found.setdefault(e.atom, _wide(dim))
    return found


def _wide(v: Any) -> Any:
    return v if str(v.ty.dtype) == "int64" else tirx.Cast("int64", v)


def over(value: Any, leaves: Leaves) -> Any:
    """A value with integers for literal terms, and TIR over ``leaves`` for the others."""
    if isinstance(value, Int):
        return value.const if value.const is not None else _expression(value, leaves)
    if isinstance(value, (tuple, list)):
        return tuple(over(v, leaves) for v in value)
    return value


def _expression(value: Int, leaves: Leaves) -> Any:
    from ..index_map.maps.from_terms import to_tvm  # which imports more than most answers need

    return to_tvm(value, leaves)


def literals(value: Any) -> Any:
    """A value with integers for literal terms, and tuples for lists; other terms stay."""
    if isinstance(value, Int):
        return value if value.const is None else value.const
    return tuple(map(literals, value)) if isinstance(value, (tuple, list)) else value


def symbolic(value: Any) -> bool:
    """Whether a value has a term in it."""
    return any(map(symbolic, value)) if isinstance(value, (tuple, list)) else isinstance(value, Int)


def text(value: Any) -> str:
    """An expression without the types of its literals: ``n * 2``."""
    return re.sub(r"T\.int(?:32|64)\((-?\d+)\)", r"\1", script(value))


# ---------------------------------------------------------------------------- equality


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal; TVM's objects if they are structurally equal."""
    if isinstance(a, tvm_ffi.Object) or isinstance(b, tvm_ffi.Object):
        both = isinstance(a, tvm_ffi.Object) and isinstance(b, tvm_ffi.Object)
        return both and bool(tvm_ffi.structural_equal(a, b))
    if isinstance(a, (tuple, list)):
        alike = type(a) is type(b) and len(a) == len(b)
        return alike and all(map(same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if is_dataclass(a) and type(a) is type(b):
        return all(same(x, y) for x, y in zip(_compared(a), _compared(b), strict=True))
    return bool(a == b)


def digest(value: Any) -> int:
    """A hash that equal values have in common."""
    if isinstance(value, tvm_ffi.Object):
        return int(tvm_ffi.structural_hash(value))
    if isinstance(value, (tuple, list)):
        return hash(tuple(map(digest, value)))
    if isinstance(value, Mapping):
        return hash(frozenset((k, digest(v)) for k, v in value.items()))
    if is_dataclass(value):
        return hash(tuple(map(digest, _compared(value))))
    return hash(value)


def _compared(value: Any) -> list[Any]:
    return [getattr(value, f.name) for f in fields(value) if f.compare]


class Structural:
    """A dataclass that may hold TVM's objects: equal if they are structurally equal."""

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return digest(self)
