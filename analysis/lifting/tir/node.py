"""Cheap access to TVM's nodes.

Each access to a node creates a Python wrapper. Comparing wrappers, and iterating over TVM's arrays
through their sequence protocol, costs several times that.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

import tvm
import tvm_ffi
from tvm import tirx
from tvm_ffi import _ffi_api

T = TypeVar("T")

_at, _size = _ffi_api.ArrayGetItem, _ffi_api.ArraySize


def items(array: Any) -> list[Any]:
    """Return the elements of a TVM array."""
    return [_at(array, k) for k in range(_size(array))]


class NodeDict(Generic[T]):
    """A mapping from nodes by identity; it keeps its keys alive, so that addresses are unique."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[Any, T]] = {}

    def __setitem__(self, node: Any, value: T) -> None:
        self._items[node.__chandle__()] = node, value

    def __getitem__(self, node: Any) -> T:
        return self._items[node.__chandle__()][1]

    def __contains__(self, node: Any) -> bool:
        return node.__chandle__() in self._items

    def get(self, node: Any) -> T | None:
        """Return the value, or None."""
        entry = self._items.get(node.__chandle__())
        return None if entry is None else entry[1]

    def items(self) -> list[tuple[Any, T]]:
        """Return the nodes and their values, in insertion order."""
        return list(self._items.values())

    def values(self) -> list[T]:
        """Return all values, in insertion order."""
        return [value for _, value in self._items.values()]


def substitute(node: Any, mapping: NodeDict[Any]) -> Any:
    """Return a node with variables replaced."""

    def variable(var: Any) -> Any:
        value = mapping.get(var)
        return var if value is None else value

    return tvm_ffi.structural_map(node, (tvm.ir.Var, variable))


def as_dtype(expr: Any, dtype: str) -> Any:
    """Return a scalar expression, cast if its type differs."""
    if str(expr.ty.dtype) == dtype:
        return expr
    return (
        tirx.IntImm(dtype, int(expr.value))
        if isinstance(expr, tirx.IntImm)
        else tirx.Cast(dtype, expr)
    )


_LANES = re.compile(r"x(vscalex)?\d+$")


def lanes_of(dtype: str) -> int:
    """Return the number of lanes of a type; 0 if it is not known."""
    match = _LANES.search(dtype) if "x" in dtype else None
    if match is None:
        return 1
    return 0 if match[1] else int(match[0][1:])


def script(node: Any) -> str:
    """Return a node as TVMScript on one line.

    For a node without script TVM prints its address, which differs from run to run. Such a node is
    printed as its kind and operands.
    """
    try:
        printed = node.script() if hasattr(node, "script") else repr(node)
    except Exception:  # TVM's errors have no common type
        operands = [script(getattr(node, k)) for k in ("a", "b", "value") if hasattr(node, k)]
        printed = f"{type(node).__name__}({', '.join(operands)})"
    return " ".join(printed.split())


class Dtypes:
    """The data types of expressions as text, for vectors those of one lane; cached by type.

    Empty for an expression that is not a number, such as a pointer.
    """

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Any, str]] = {}

    def __call__(self, expr: Any) -> str:
        ty = expr.ty
        entry = self._cache.get(ty.__chandle__())
        if entry is None:
            dtype = _LANES.sub("", str(getattr(ty, "dtype", "")))
            entry = self._cache[ty.__chandle__()] = ty, dtype
        return entry[1]
