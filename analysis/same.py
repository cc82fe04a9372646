"""PrimFuncs that are structurally the same: equal bodies and parameters.

Function attributes say nothing about the compute, and names do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import tvm_ffi
from tvm import tirx

T = TypeVar("T")


def bare(func: Any) -> Any:
    """The PrimFunc without its attributes."""
    attrs = func.attrs
    if attrs is None:
        return tirx.PrimFunc(func.params, func.body, func.ret_type)
    for key in attrs.keys():
        func = func.without_attr(key)
    return func


def structurally_equal(a: Any, b: Any) -> bool:
    """Equal bodies and parameters; those that have equal attributes too need no copies."""
    if tvm_ffi.structural_equal(a, b, map_free_vars=True):
        return True
    return bool(tvm_ffi.structural_equal(bare(a), bare(b), map_free_vars=True))


class ByStructure(Generic[T]):
    """The results of a function of PrimFuncs, computed once for structurally equal ones."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._known: dict[int, list[tuple[Any, T]]] = {}

    def __call__(self, func: Any) -> T:
        key = bare(func)
        same = self._known.setdefault(tvm_ffi.structural_hash(key, map_free_vars=True), [])
        for other, result in same:
            if tvm_ffi.structural_equal(other, key, map_free_vars=True):
                return result
        result = self._function(func)
        same.append((key, result))
        return result
