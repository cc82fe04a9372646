"""Inline the stages of a PrimFunc that would only pass over memory once more.

Before: for i: t[i] = x[i] - m;   for i: u[i] = t[i] / s      After: for i: u[i] = (x[i] - m) / s

Nothing is proved here. No element is computed more often than before, and copies without effect go,
such as a padding by 0 or a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.blocks import Stage
from ...analysis.blocks.definitions import BlockDefinition, Undefined, resolve
from ...analysis.blocks.inline import Use, inlinable
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.tvm_compat import SBlock, SBlockRealize, TensorLoad, source_of
from ...analysis.terms.row_major import volume
from ..access.copies import copies


def inlined(func: Any, stages: Sequence[Stage]) -> Any:
    """The PrimFunc with such stages inlined into their readers; itself if there are none."""
    root = func.body.block
    inner = NodeDict[None]()
    for buffer in items(root.alloc_buffers):
        inner[buffer] = None
    try:
        remaining, definitions = resolve(stages, inlinable(stages, inner, _pays))
    except Undefined:
        return func
    if len(remaining) == len(stages):
        return func
    inline = _Inliner(definitions)
    kept = {id(s) for s in remaining}
    nests = items(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    new = [inline(n) for n, s in zip(nests, stages, strict=True) if id(s) in kept]
    body = new[0] if len(new) == 1 else tirx.SeqStmt(new)
    buffers = [b for b in items(root.alloc_buffers) if b not in definitions]
    root = SBlock([], [], [], root.name_hint, body, alloc_buffers=buffers)
    realize = SBlockRealize([], True, root)
    return tirx.PrimFunc(func.params, realize, func.ret_type, func.attrs)


def _pays(stage: Stage, _: BlockDefinition, uses: Sequence[Use]) -> bool:
    """Whether inlining pays: for a copy, or if the only reader evaluates no element twice."""
    once = len(uses) == 1 and uses[0].evaluations is volume(stage.writes[0].shape)
    return once or copies(stage)


class _Inliner:
    """Replaces loads by definitions, and the loads in these."""

    def __init__(self, definitions: NodeDict[BlockDefinition]) -> None:
        self.definitions = definitions
        self.rules = [(TensorLoad, self.load)]

    def __call__(self, node: Any) -> Any:
        return tvm_ffi.structural_mutate(node, self.rules)

    def load(self, expr: Any, mutator: Any) -> Any:
        definition = self.definitions.get(source_of(expr))
        if definition is None:
            return mutator.default_mutate(expr)
        return self(definition.at([mutator.mutate(i) for i in items(expr.indices)]))
