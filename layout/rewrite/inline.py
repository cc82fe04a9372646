"""A PrimFunc without the stages that would only pass over memory once more.

Before: for i: t[i] = x[i] - m;   for i: u[i] = t[i] / s      After: for i: u[i] = (x[i] - m) / s

Nothing is proved here. What is computed stays as often computed, and copies that change nothing go:
a padding by nothing, a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ...analysis.blocks.blocks import Stage
from ...analysis.blocks.definitions import BlockDefinition, Undefined, loads, resolved
from ...analysis.blocks.definitions import definition as defines
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.terms.flat import volume
from ...analysis.terms.term import Int
from ..access.copies import copies


def inlined(func: Any, stages: Sequence[Stage]) -> Any:
    """The PrimFunc with such stages inlined into their readers; itself if there are none."""
    root = func.body.block
    inner = NodeDict[None]()
    for b in items(root.alloc_buffers):
        inner[b] = None
    try:
        left, found = resolved(stages, _worthwhile(stages, inner))
    except Undefined:
        return func
    if len(left) == len(stages):
        return func
    inline = _Inliner(found)
    kept = {id(s) for s in left}
    nests = items(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    new = [inline(n) for n, s in zip(nests, stages, strict=True) if id(s) in kept]
    body = new[0] if len(new) == 1 else tirx.SeqStmt(new)
    buffers = [b for b in items(root.alloc_buffers) if b not in found]
    root = s_tir.SBlock([], [], [], root.name_hint, body, alloc_buffers=buffers)
    realize = s_tir.SBlockRealize([], True, root)
    return tirx.PrimFunc(func.params, realize, func.ret_type, func.attrs)


def _worthwhile(stages: Sequence[Stage], inner: NodeDict[None]) -> list[Any]:
    """The buffers to do without: copies, and what is evaluated no more often by its reader.

    From the last stage to the first, for a reader may go into its own reader.
    """
    drop = []
    often = NodeDict[list[Int]]()  # how many times each load of a buffer is evaluated
    for s in reversed(stages):
        made = defines(s) if s.writes and s.writes[0].buffer in inner else None
        times = [_iterations(s)]
        if made is not None:
            read = often.get(made.buffer) or []
            once = len(read) == 1 and read[0] is volume(s.writes[0].shape)
            if once or copies(s):
                drop.append(made.buffer)
                times = read
        for b, count in loads(s.block.init, s.block.body).items():
            often[b] = [*(often.get(b) or ()), *times * count]
    return drop


def _iterations(s: Stage) -> Int:
    return volume([v.extent for v in s.axes if v.extent is not None])


class _Inliner:
    """Replaces loads by definitions, in which loads are replaced already."""

    def __init__(self, found: NodeDict[BlockDefinition]) -> None:
        self.found = found
        self.rules = [(tvm.ir.TensorLoad, self.load)]

    def __call__(self, node: Any) -> Any:
        return tvm_ffi.structural_mutate(node, self.rules)

    def load(self, e: Any, mutator: Any) -> Any:
        made = self.found.get(e.source)
        if made is None:
            return mutator.default_mutate(e)
        at = NodeDict[Any]()
        for v in made.units:
            at[v] = tirx.IntImm(str(v.ty.dtype), 0)
        for v, i in zip(made.iterators, items(e.indices), strict=True):
            if v is not None:
                at[v] = _as(mutator.mutate(i), str(v.ty.dtype))
        value = tvm_ffi.structural_mutate(made.value, [(tvm.ir.Var, _Values(at))])
        return self(value)


def _as(e: Any, dtype: str) -> Any:
    same = str(e.ty.dtype) == dtype
    if same:
        return e
    return tirx.IntImm(dtype, int(e)) if isinstance(e, tirx.IntImm) else tirx.Cast(dtype, e)


class _Values:
    def __init__(self, at: NodeDict[Any]) -> None:
        self.at = at

    def __call__(self, v: Any, _: Any) -> Any:
        found = self.at.get(v)
        return v if found is None else found
