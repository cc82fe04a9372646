"""Terms of indices and sizes in the blocks of a PrimFunc, and why one is not in standard form."""

from __future__ import annotations

from typing import Any

from ..lifting.size_scope import SizeScope
from ..lifting.tir.from_tir import ExpressionReader
from ..lifting.tir.node import NodeDict, items
from ..lifting.tir.unliftable import Unliftable
from ..terms.term import Int, Term, Var, as_int


class Opaque(Exception):
    """A PrimFunc is not in standard form; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SizeTerms:
    """The terms of a PrimFunc's sizes and scalars."""

    def __init__(self, scope: SizeScope) -> None:
        self.env = scope.env
        self._reader = ExpressionReader(self.env, by_data)

    @property
    def leaves(self) -> dict[Var, Any]:
        """Return the TIR variable of each size."""
        pairs = ((v, as_int(t).atom) for v, t in self.env.items())
        return {t: v for v, t in pairs if isinstance(t, Var)}

    def shape(self, buffer: Any) -> tuple[Int, ...]:
        return tuple(size_term(self._reader, e) for e in items(buffer.ty.shape))


class BlockEnv:
    """Iterators and values bound in the block, in front of the sizes."""

    def __init__(self, sizes: Any) -> None:
        self.axes = NodeDict[Term]()
        self.sizes = sizes

    def get(self, var: Any) -> Term | None:
        value: Term | None = self.axes.get(var)
        return self.sizes.get(var) if value is None else value


def by_data(buffer: Any, index: tuple[Int, ...]) -> Term:
    raise Unliftable("a coordinate depends on data")


def index_term(reader: ExpressionReader, expr: Any) -> Int | None:
    """The term of an index, or None if data decides it."""
    try:
        return reader.index(expr)
    except Unliftable:
        return None


def size_term(reader: ExpressionReader, expr: Any) -> Int:
    size = index_term(reader, expr)
    if size is None:
        raise Opaque("an extent is not supported")
    return size
