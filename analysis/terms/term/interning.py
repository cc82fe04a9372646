"""Intern terms: equal terms are the same object, which a table refers to weakly.

A term dies with the last reference to it; the table then forgets it.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from .work_budget import look

UID = itertools.count()
#: Terms between two readings of the clock: to read it for each would cost too much.
_LOOK = 4096


class Interned:
    """A value with a place in the table.

    Attributes:
        uid: Its number, in the order of creation.
        dtype: Its type.
        memo: A cache for results of analyses.
        children: The terms that it consists of.
        reads: The tensors that it loads from.
        free: The cached result of `traversal.free`.
    """

    __slots__ = ("__weakref__", "children", "dtype", "free", "memo", "reads", "uid")
    uid: int
    dtype: str
    memo: dict[str, Any]
    children: tuple[Any, ...]
    reads: frozenset[Any]
    free: frozenset[Any] | None


class _Entry(weakref.ref[Interned]):
    """A weak reference to a term in the table, with its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_NOTHING: frozenset[Any] = frozenset()
TABLE: dict[tuple[Any, ...], _Entry] = {}


def _forget(entry: _Entry) -> None:
    """Remove a dead term; its key may already have a new one."""
    current = TABLE.pop(entry.key, entry)
    if current is not entry:
        TABLE[entry.key] = current


def interned(key: tuple[Any, ...]) -> Any:
    """Return the term with this key, or None."""
    entry = TABLE.get(key)
    return None if entry is None else entry()


def intern_new(
    cls: type[Interned], key: tuple[Any, ...], dtype: str, children: tuple[Any, ...]
) -> Any:
    """Return a new term in the table; the caller sets the attributes of its class."""
    term = cls.__new__(cls)
    term.uid = next(UID)
    if not term.uid & (_LOOK - 1):
        look()
    term.dtype, term.memo, term.children, term.free = dtype, {}, children, None
    reads = _NOTHING
    for child in children:
        if child.reads is not reads and child.reads:
            reads = reads | child.reads if reads else child.reads
    term.reads = reads
    entry = TABLE[key] = _Entry(term, _forget)
    entry.key = key
    return term


def recall(term: Interned, key: str) -> Any:
    """Return the cached term, or None."""
    entry = term.memo.get(key)
    return None if entry is None else entry()


def remember(term: Interned, key: str, value: Interned) -> None:
    """Cache a term that ``term`` may be a part of; it lives as long as something else refers to it.

    The table's keys refer to the parts of a term, so a part that referred to it would keep it
    forever.
    """
    term.memo[key] = weakref.ref(value)
