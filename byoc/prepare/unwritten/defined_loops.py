"""Define what TVM's lowering leaves open: reads of memory that nothing has written.

    Before: for d in range(4):  o[d] = o[d] * factor[d]     of `factor`, one element
    After:  for d in range(4):  o[d] = o[d] * factor[0]

An allocated buffer of one element has no other index. TVM's attention of prompts for CPUs reads
behind such a buffer: LLVM assumes from level 1 on that it does not, and at level 0 reads what is
next on the stack. Reductions over no elements, stores to empty buffers, bfloat16 and NaN have
passes of their own.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import integer, mentions, static
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.support.ir.rewrite_functions import replaced_functions
from ....analysis.support.tvm_compat import SBlock, TensorLoad, source_of
from ..loops.guard_stores import guard_stores
from ..loops.kept_nan import kept_nan
from ..loops.round_bfloat16 import round_bfloat16
from ..loops.start_reductions import start_reductions


def defined_loops(mod: Any) -> Any:
    """Return a module for a CPU whose PrimFuncs read no memory that nothing has written.

    Args:
        mod: A lowered module, fused or not; it is not changed.
    """
    return kept_nan(round_bfloat16(guard_stores(start_reductions(single_elements(mod)))))


def single_elements(mod: Any) -> Any:
    """Return a module that reads allocated buffers of one element at index 0."""
    return replaced_functions(mod, _function)


def _function(func: Any) -> Any:
    if not isinstance(func, tirx.PrimFunc):
        return func
    allocated = _single_elements_of(func.body)
    if not len(allocated.items()):
        return func
    long: NodeDict[None] = NodeDict()  # variables of loops that have other values than one

    def enter(node: Any, mutator: Any) -> Any:
        if static(node.extent) != 1:
            long[node.loop_var] = None
        return mutator.default_mutate(node)

    def load(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        indices = items(node.indices)
        varies = any(var in long for index in indices for var, _ in mentions(index).items())
        if not varies or source_of(node) not in allocated:
            return node
        return tirx.BufferLoad(source_of(node), [integer(0, index) for index in indices])

    body = tvm_ffi.structural_mutate(func.body, [(tirx.For, enter), (TensorLoad, load)])
    return func if body.same_as(func.body) else func.with_body(body)


def _single_elements_of(body: Any) -> NodeDict[None]:
    """The buffers of one element that a body allocates; a view of another may have more behind."""
    found: NodeDict[None] = NodeDict()

    def note(*buffers: Any) -> None:
        for buffer in buffers:
            if all(static(extent) == 1 for extent in items(buffer.ty.shape)):
                found[buffer] = None

    parts = [(tirx.AllocBuffer, lambda s: note(s.buffer)),
             (SBlock, lambda b: note(*items(b.alloc_buffers)))]  # fmt: skip
    tvm_ffi.structural_walk(body, parts)
    return found
