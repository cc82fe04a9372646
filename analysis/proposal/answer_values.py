"""Values in an answer: plain Python values, and TIR over the PrimFunc's own variables.

Inside the analysis a size is a term, shared by structurally equal PrimFuncs. An answer that leaves
the analysis is about one PrimFunc, and its sizes are that PrimFunc's variables.
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
    """Return the TIR expression of each size and scalar of a PrimFunc, in int64 as in Relax."""
    values: dict[Var, Any] = {}
    for lifted, param in zip(params, items(func.params), strict=True):
        if isinstance(lifted, Var):
            values.setdefault(lifted, _wide(param))
        elif is_buffer_var(param):
            for poly, dim in zip(lifted.shape, items(param.ty.shape), strict=True):
                if isinstance(poly.atom, Var) and not isinstance(dim, tirx.IntImm):
                    values.setdefault(poly.atom, _wide(dim))
    return values


def _wide(var: Any) -> Any:
    return var if str(var.ty.dtype) == "int64" else tirx.Cast("int64", var)


def over(value: Any, leaves: Leaves) -> Any:
    """Return a value with integers for literal terms and TIR over ``leaves`` for other terms."""
    if isinstance(value, Int):
        return value.const if value.const is not None else _expression(value, leaves)
    if isinstance(value, (tuple, list)):
        return tuple(over(v, leaves) for v in value)
    return value


def _expression(value: Int, leaves: Leaves) -> Any:
    from ..index_map.maps.from_terms import to_tvm  # heavy, and few answers need it

    return to_tvm(value, leaves)


def literals(value: Any) -> Any:
    """Return a value with integers for literal terms and tuples for lists; other terms stay."""
    if isinstance(value, Int):
        return value if value.const is None else value.const
    return tuple(map(literals, value)) if isinstance(value, (tuple, list)) else value


def symbolic(value: Any) -> bool:
    """Whether a value contains a term."""
    return any(map(symbolic, value)) if isinstance(value, (tuple, list)) else isinstance(value, Int)


def text(value: Any) -> str:
    """Return an expression as text, without the types of its literals: ``n * 2``."""
    return re.sub(r"T\.int(?:32|64)\((-?\d+)\)", r"\1", script(value))


# ---------------------------------------------------------------------------- equality


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal; TVM's objects are compared structurally."""
    if isinstance(a, tvm_ffi.Object) or isinstance(b, tvm_ffi.Object):
        objects = isinstance(a, tvm_ffi.Object) and isinstance(b, tvm_ffi.Object)
        return objects and bool(tvm_ffi.structural_equal(a, b))
    if isinstance(a, (tuple, list)):
        alike = type(a) is type(b) and len(a) == len(b)
        return alike and all(map(same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if is_dataclass(a) and type(a) is type(b):
        return all(same(x, y) for x, y in zip(_compared(a), _compared(b), strict=True))
    return bool(a == b)


def digest(value: Any) -> int:
    """Return a hash that is the same for equal values."""
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
    """A dataclass that may hold TVM's objects, which are compared structurally."""

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return digest(self)
