"""PrimFuncs that are structurally the same: equal bodies and parameters.

Function attributes say nothing about the compute, and names do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import tvm_ffi
from tvm import tirx

from ..registry.registry import generation

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
    """The results of a function of PrimFuncs, computed once for structurally equal ones.

    They are forgotten when a recogniser is registered or removed.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function = function
        self._forget()

    def _forget(self) -> None:
        self._generation = generation()
        self._first: dict[Hashable, tuple[Any, T] | None] = {}
        self._known: dict[tuple[Hashable, int], list[tuple[Any, T]]] = {}
        self._seen: dict[tuple[Hashable, int], tuple[Any, T]] = {}  # by address; kept alive

    def __call__(self, func: Any, kind: Hashable = None) -> T:
        """The result; only PrimFuncs of one kind are compared.

        The first of a kind is hashed when a second one comes.
        """
        if self._generation != generation():
            self._forget()
        place = kind, func.__chandle__()
        found = self._seen.get(place)
        if found is None:
            found = self._seen[place] = func, self._found(func, kind)
        return found[1]

    def _found(self, func: Any, kind: Hashable) -> T:
        if kind not in self._first:
            result = self._function(func)
            self._first[kind] = func, result
            return result
        first = self._first[kind]
        if first is not None:
            self._keep(kind, bare(first[0]), first[1])
            self._first[kind] = None
        key = bare(func)
        for other, result in self._known.get(_slot(kind, key), ()):
            if tvm_ffi.structural_equal(other, key, map_free_vars=True):
                return result
        result = self._function(func)
        self._keep(kind, key, result)
        return result

    def _keep(self, kind: Hashable, key: Any, result: T) -> None:
        self._known.setdefault(_slot(kind, key), []).append((key, result))


def _slot(kind: Hashable, key: Any) -> tuple[Hashable, int]:
    return kind, tvm_ffi.structural_hash(key, map_free_vars=True)
