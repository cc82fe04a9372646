"""Structural equality of PrimFuncs: equal bodies and parameters.

Function attributes and names are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import tvm_ffi
from tvm import tirx

from ..registry.registry import generation

T = TypeVar("T")


def bare(func: Any) -> Any:
    """Return the PrimFunc without its attributes."""
    attrs = func.attrs
    if attrs is None:
        return tirx.PrimFunc(func.params, func.body, func.ret_type)
    for key in attrs.keys():
        func = func.without_attr(key)
    return func


def structurally_equal(a: Any, b: Any) -> bool:
    """Return whether bodies and parameters are equal; copies are made only if attributes differ."""
    if tvm_ffi.structural_equal(a, b, map_free_vars=True):
        return True
    return bool(tvm_ffi.structural_equal(bare(a), bare(b), map_free_vars=True))


class ByStructure(Generic[T]):
    """A cache of a function's results, shared by structurally equal PrimFuncs.

    The cache is emptied when a recogniser is registered or removed.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._forget()

    def _forget(self) -> None:
        self._generation = generation()
        self._first: dict[Hashable, tuple[Any, T] | None] = {}
        self._cache: dict[tuple[Hashable, int], list[tuple[Any, T]]] = {}
        self._seen: dict[tuple[Hashable, int], tuple[Any, T]] = {}  # by address; kept alive

    def __call__(self, func: Any, kind: Hashable = None) -> T:
        """Return the result; only PrimFuncs of one kind are compared.

        The first PrimFunc of a kind is hashed when a second one comes.
        """
        if self._generation != generation():
            self._forget()
        place = kind, func.__chandle__()
        entry = self._seen.get(place)
        if entry is None:
            entry = self._seen[place] = func, self._lookup(func, kind)
        return entry[1]

    def _lookup(self, func: Any, kind: Hashable) -> T:
        if kind not in self._first:
            result = self._function(func)
            self._first[kind] = func, result
            return result
        first = self._first[kind]
        if first is not None:
            self._keep(kind, bare(first[0]), first[1])
            self._first[kind] = None
        key = bare(func)
        for earlier, result in self._cache.get(_slot(kind, key), ()):
            if tvm_ffi.structural_equal(earlier, key, map_free_vars=True):
                return result
        result = self._function(func)
        self._keep(kind, key, result)
        return result

    def _keep(self, kind: Hashable, key: Any, result: T) -> None:
        self._cache.setdefault(_slot(kind, key), []).append((key, result))


def _slot(kind: Hashable, key: Any) -> tuple[Hashable, int]:
    return kind, tvm_ffi.structural_hash(key, map_free_vars=True)
