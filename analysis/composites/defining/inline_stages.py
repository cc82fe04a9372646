"""Inline the stages of a TE compute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
import tvm_ffi
from tvm import te

from ...lifting.tir.node import NodeDict, items, substitute
from ...support.ir.call_ops import op_name

_LOAD = "te.tensor_load"


def inlined(result: Any) -> Any:
    """Return tensors with the same values, whose stages without a reduction are inlined.

    A stage that is read several times is inlined only if it is a copy or reads no tensor, so that
    the size stays linear. Results stay stages.

    Args:
        result: A tensor, or a tuple of tensors.
    """
    results = list(result) if isinstance(result, tuple) else [result]
    stages = _Stages(results)
    out = [stages.rewritten(t) for t in results]
    return tuple(out) if isinstance(result, tuple) else out[0]


class _Stages:
    """How often each stage is read, and its rewritten form."""

    def __init__(self, results: list[Any]) -> None:
        self._reads: Counter[int] = Counter()
        self._kept = {t.op.__chandle__() for t in results}
        self._seen: set[int] = set()
        self._rewritten = NodeDict[Any]()
        self._bodies = NodeDict[Any]()
        self._pending = list(results)  # keeps the nodes alive, so that addresses are unique
        for tensor in self._pending:
            self._count(tensor)

    def _count(self, tensor: Any) -> None:
        if tensor.op.__chandle__() in self._seen or not isinstance(tensor.op, te.ComputeOp):
            return
        self._seen.add(tensor.op.__chandle__())
        for load in _loads(items(tensor.op.body)):
            self._reads[load.args[0].op.__chandle__()] += 1
            self._pending.append(load.args[0])

    def rewritten(self, tensor: Any) -> Any:
        """Return a stage over inlined stages."""
        if not isinstance(tensor.op, te.ComputeOp):
            return tensor
        known = self._rewritten.get(tensor.op)
        if known is None:
            known = self._rewritten[tensor.op] = self._rebuilt(tensor.op)
        return known[tensor.value_index]

    def _rebuilt(self, op: Any) -> list[Any]:
        def compute(*indices: Any) -> Any:
            values = [_at(op, value, indices) for value in self._body(op)]
            return values[0] if len(values) == 1 else values

        shape = [axis.dom.extent for axis in items(op.axis)]
        out = te.compute(shape, compute, name=str(op.name))
        return [out] if isinstance(out, te.Tensor) else list(out)

    def _body(self, op: Any) -> list[Any]:
        """The values of a stage, over inlined stages."""
        known = self._bodies.get(op)
        if known is None:
            known = self._bodies[op] = [
                tvm_ffi.structural_map(value, (tvm.ir.Call, self._call)) for value in items(op.body)
            ]
        return known

    def _call(self, node: Any) -> Any:
        if not _is_load(node):
            return node
        tensor, *indices = items(node.args)
        if not self._inlines(tensor):
            return self.rewritten(tensor)(*indices)
        return _at(tensor.op, self._body(tensor.op)[tensor.value_index], indices)

    def _inlines(self, tensor: Any) -> bool:
        op = tensor.op
        if not isinstance(op, te.ComputeOp) or op.__chandle__() in self._kept:
            return False
        if len(items(op.reduce_axis)):
            return False
        body = self._body(op)
        return self._reads[op.__chandle__()] < 2 or _is_load(body[0]) or not _loads(body)


def _at(op: Any, value: Any, indices: Any) -> Any:
    """A value of a stage at indices."""
    mapping = NodeDict[Any]()
    for axis, index in zip(items(op.axis), indices, strict=True):
        mapping[axis.var] = index
    return substitute(value, mapping)


def _is_load(node: Any) -> bool:
    return op_name(node) == _LOAD


def _loads(body: list[Any]) -> list[Any]:
    loads: list[Any] = []

    def visit(node: Any) -> None:
        if _is_load(node):
            loads.append(node)

    for expr in body:
        tvm_ffi.structural_walk(expr, (tvm.ir.Call, visit))
    return loads
