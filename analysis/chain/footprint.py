"""The memory that a statement reads and writes, even if the statement is not understood.

A buffer is followed to its memory through ``decl_buffer`` and ``match_buffer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..lifting.parameters import Parameters
from ..lifting.tir.node import NodeDict, items
from ..lifting.tir.unliftable import Unliftable
from ..support.ir.call_ops import op_name
from ..support.tvm_compat import SBlock, TensorLoad, source_of
from ..terms.term import TensorVar

#: A reduction over the threads of a block.
ALL_REDUCE = "tirx.tvm_thread_allreduce"


class Footprint:
    """The memory that a statement names; ``around`` has the buffers from outside."""

    def __init__(self, stmt: Any, around: Parameters) -> None:
        self._stmt, self._around = stmt, around
        self._base = NodeDict[
            Any
        ]()  # the data that each buffer is declared over; None if allocated here
        for node in _inside(stmt, (tirx.DeclBuffer, tirx.AllocBuffer, SBlock)):
            kind = type(node).__name__
            if kind == "DeclBuffer":
                self._base[node.buffer] = node.data
                continue
            for buffer in [node.buffer] if kind == "AllocBuffer" else items(node.alloc_buffers):
                self._base[buffer] = None
            for m in () if kind == "AllocBuffer" else items(node.match_buffers):
                self._base[m.buffer] = source_of(m.source)

    def loads(self) -> list[TensorVar]:
        """Return the tensors from outside that are read, in the order in which they are named.

        Raises:
            Unliftable: The memory is not known.
        """
        return self._memories(source_of(e) for e in _inside(self._stmt, TensorLoad))

    def stores(self) -> list[TensorVar]:
        """Return the tensors from outside that are written; raise as `loads` does."""
        stored = [e.buffer for e in _inside(self._stmt, tirx.BufferStore)]
        return self._memories([*stored, *_reduced(self._stmt)])

    def _memories(self, buffers: Iterable[Any]) -> list[TensorVar]:
        memories = dict.fromkeys(map(self._memory, buffers))
        return [t for t in memories if t is not None]

    def _memory(self, buffer: Any) -> TensorVar | None:
        """The tensor of a buffer, or of the buffer it is over; None if it is allocated inside."""
        if buffer in self._base:
            base = self._base[buffer]
            return None if base is None else self._memory(pointed_buffer(base))
        view = self._around.views.get(buffer)
        return view.tensor if view is not None else self._around.tensor(buffer)


def _reduced(stmt: Any) -> list[Any]:
    """The buffers in which reductions over threads store.

    The operands are the number n of values, the n values, a condition, the n results, and threads;
    if n is not a literal, any operand may be a result.
    """
    stored: list[Any] = []
    for call in _inside(stmt, tvm.ir.Call):
        if op_name(call) != ALL_REDUCE:
            continue
        operands = items(call.args)
        count = getattr(operands[0], "value", None)
        results = operands if count is None else operands[count + 2 : 2 * count + 2]
        stored += [source_of(e) for r in results for e in _inside(r, TensorLoad)]
    return stored


def _inside(stmt: Any, kinds: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(stmt, (kinds, nodes.append))
    return nodes


def pointed_buffer(data: Any) -> Any:
    """Return the buffer that a pointer refers to; raise `Unliftable` if it is not known."""
    source = data.args[0] if op_name(data) == "tirx.buffer_data" else data
    if not is_buffer_var(source):
        raise Unliftable("a buffer aliases a part of another buffer")
    return source
