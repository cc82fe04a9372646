"""Buffers that only one loop accesses: each of its iterations may have a copy of its own.

    p = alloc_buffer((8,))
    for i in range(n): for j in range(i + 1): p[j] = f(i, j); …; out[i] = g(p)

If no iteration reads what an earlier one stored, the content after an iteration does not matter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ..proofs.context import simplify
from ..support.tvm_compat import SBlock, TensorLoad, source_of
from ..terms.condition_terms import parts
from ..terms.term import TRUE, Int, TensorVar, as_int
from ..terms.traversal import tensors
from .effects.effects import Effects, Write
from .tir.node import items


class PrivateBuffers:
    """The accesses of a function's buffers, counted."""

    def __init__(self, func: Any) -> None:
        self.func = func

    @cached_property
    def whole(self) -> Counter[int]:
        """The number of accesses of each buffer in the function."""
        return _accesses(self.func.body)

    @cached_property
    def viewed(self) -> set[int]:
        """The buffers that have another name as well."""
        data: list[Any] = []
        tvm_ffi.structural_walk(
            self.func.body,
            [
                (tirx.DeclBuffer, lambda s: data.append(s.data)),
                (
                    SBlock,
                    lambda b: data.extend(source_of(m.source) for m in items(b.match_buffers)),
                ),
            ],
        )
        out: set[int] = set()
        for expr in data:
            tvm_ffi.structural_walk(expr, (ir.Var, lambda v: out.add(v.__chandle__())))
        return out

    def of_loop(self, stmt: Any, buffers: dict[TensorVar, Any], effects: Effects) -> set[TensorVar]:
        """Return the tensors that only this loop accesses, anew in each iteration.

        Args:
            stmt: The loop.
            buffers: The buffers of tensors that may be dropped.
            effects: The effects of one iteration.
        """
        written = [t for t in buffers if t in effects.writes and t not in effects.outer]
        if not written:
            return set()
        inside = _accesses(stmt.body)
        handles = {t: buffers[t].__chandle__() for t in written}
        own = {t for t, h in handles.items() if inside[h] == self.whole[h] and h not in self.viewed}
        if own & _read(effects):
            for tensor, writes in effects.writes.items():
                if tensor not in own:
                    effects.writes[tensor] = [_simplified(w, own) for w in writes]
        return own - _read(effects, own)


def _read(
    effects: Effects, except_for: set[TensorVar] | frozenset[TensorVar] = frozenset()
) -> frozenset[TensorVar]:
    """The tensors whose content before an iteration matters to it."""
    writes = (w for t, ws in effects.writes.items() if t not in except_for for w in ws)
    return frozenset[TensorVar]().union(
        *(tensors(x) for w in writes for x in (w.guard, *w.index, w.value))
    )


def _simplified(write: Write, own: set[TensorVar]) -> Write:
    """A write without loads that the conditions around them exclude."""
    if own.isdisjoint(tensors(write.value)):
        return write
    value = simplify(write.value, parts(write.guard) if write.guard is not TRUE else ())
    return replace(write, value=as_int(value) if isinstance(write.value, Int) else value)


def _accesses(stmt: Any) -> Counter[int]:
    counts: Counter[int] = Counter()

    def count(buffer: Any) -> None:
        counts[buffer.__chandle__()] += 1

    tvm_ffi.structural_walk(
        stmt,
        [
            (TensorLoad, lambda load: count(source_of(load))),
            (tirx.BufferStore, lambda store: count(store.buffer)),
        ],
    )
    return counts
