"""Merge products of one tensor with several weights, such as those for queries, keys and values.

Before: q = R.reshape(R.matmul(x, wq), s)                        k = R.reshape(R.matmul(x, wk), s)
After:  y = R.matmul(x, w)   q = R.reshape(y[:, :n], s)          k = R.reshape(y[:, n:], s)

A product takes its bias and its cast along. Only products whose result a reshape or a permutation
reads are merged: such are views, which regions read in place. Columns of a product do not depend on
other columns, so results differ by rounding at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.bindings import variables_read
from ..mutation.dataflow_blocks import with_dataflow_blocks
from ..mutation.mutate import named

_VIEWS = ("relax.reshape", "relax.permute_dims")


def merge_projections(mod: Any) -> Any:
    """The module with products merged in its dataflow blocks; the input is not changed."""
    merged = with_dataflow_blocks(mod, lambda builder, block: _Block(builder, block).merged())
    return relax.transform.DeadCodeElimination()(merged)


@dataclass(frozen=True)
class _Projection:
    """A product with constant weights, its bias and its cast.

    Attributes:
        call: The product.
        bias: The constant that is added, or None.
        cast: The dtype of a cast at the end, or empty.
        first: The number of the product's binding.
        result: The binding of the last of them.
    """

    call: Any
    bias: Any
    cast: str
    first: int
    result: Any

    @property
    def columns(self) -> int:
        return int(self.call.args[1].ty.shape.values[1])


class _Block:
    """The bindings of a dataflow block, of which projections of one tensor are merged."""

    def __init__(self, builder: Any, block: Any) -> None:
        self.builder, self.block = builder, block
        self.bindings: list[Any] = list(block.bindings)
        self.of: NodeDict[Any] = NodeDict()
        self.readers: NodeDict[list[Any]] = NodeDict()
        for binding in self.bindings:
            self.of[binding.var] = binding
            for var in variables_read(binding.value):
                self.readers[var] = [*(self.readers.get(var) or []), binding]

    def merged(self) -> Any:
        if not all(isinstance(b, relax.VarBinding) for b in self.bindings):
            return self.block  # a match_cast defines symbols in an order of its own
        groups: list[list[_Projection]] = []
        for projection in self._projections():
            alike = (g for g in groups if self._alike(g[0], projection))
            if (group := next(alike, None)) is None:
                groups.append([projection])
            else:
                group.append(projection)
        several = [g for g in groups if len(g) > 1]
        if not several:
            return self.block
        before: dict[int, list[Any]] = {}
        replaced: NodeDict[Any] = NodeDict()
        for group in several:
            before[group[0].first] = self._merge(group, replaced)
        out: list[Any] = []
        for k, binding in enumerate(self.bindings):
            out += [*before.get(k, []), replaced.get(binding.var) or binding]
        return relax.DataflowBlock(out)

    def _projections(self) -> Iterator[_Projection]:
        for k, binding in enumerate(self.bindings):
            call = binding.value
            if not named(call, "relax.matmul") or not isinstance(call.args[1], GenericConst):
                continue
            if call.args[1].ty.ndim != 2 or not isinstance(call.args[0], relax.Var):
                continue
            bias, cast, last = None, "", binding
            after = self._only_reader(last)
            if after is not None and (bias := _row(after.value, last.var)) is not None:
                last, after = after, self._only_reader(after)
            if after is not None and named(after.value, "relax.astype"):
                cast, last, after = str(after.value.attrs.dtype), after, self._only_reader(after)
            if after is not None and any(named(after.value, name) for name in _VIEWS):
                yield _Projection(call, bias, cast, k, last)

    def _only_reader(self, binding: Any) -> Any:
        readers = self.readers.get(binding.var) or []
        inner = isinstance(binding.var, relax.DataflowVar)
        return readers[0] if inner and len(readers) == 1 else None

    def _alike(self, a: _Projection, b: _Projection) -> bool:
        """Whether two products have the same first operand, and differ in constants only."""
        if (a.cast, a.bias is None) != (b.cast, b.bias is None) or not self._same(
            a.call.args[0], b.call.args[0]
        ):
            return False
        typed = [(a.call, b.call), (a.call.args[1], b.call.args[1])]
        typed += [] if a.bias is None else [(a.bias, b.bias)]
        return all(str(x.ty.dtype) == str(y.ty.dtype) for x, y in typed)

    def _same(self, expr: Any, other: Any) -> bool:
        """Whether two variables are one, or reshapes of one to the same shape."""
        if expr.same_as(other):
            return True
        first: Any
        second: Any
        first, second = (self.of[v].value if v in self.of else None for v in (expr, other))
        return (named(first, "relax.reshape") and named(second, "relax.reshape")
                and first.args[0].same_as(second.args[0])
                and bool(tvm_ffi.structural_equal(first.args[1], second.args[1])))  # fmt: skip

    def _merge(self, group: Sequence[_Projection], replaced: NodeDict[Any]) -> list[Any]:
        """The bindings of one product for all; each result becomes a slice of it."""
        made: list[Any] = []

        def bind(expr: Any) -> Any:
            value = self.builder.normalize(expr)
            made.append(relax.VarBinding(relax.DataflowVar("merged", value.ty), value))
            return made[-1].var

        first = group[0]
        weights = _joined([p.call.args[1] for p in group], 1)
        whole = bind(relax.op.matmul(first.call.args[0], weights, first.call.attrs.out_dtype))
        if first.bias is not None:
            whole = bind(relax.op.add(whole, _joined([p.bias for p in group], -1)))
        if first.cast:
            whole = bind(relax.op.astype(whole, first.cast))
        begin, axis = 0, whole.ty.ndim - 1
        for projection in group:
            end = begin + projection.columns
            part = self.builder.normalize(relax.op.strided_slice(whole, [axis], [begin], [end]))
            replaced[projection.result.var] = relax.VarBinding(projection.result.var, part)
            begin = end
        return made


def _joined(constants: Sequence[Any], axis: int) -> Any:
    arrays = [array_of(c).numpy() for c in constants]
    return relax.const(np.concatenate(arrays, axis), str(constants[0].ty.dtype))


def _row(expr: Any, product: Any) -> Any:
    """The constant with one element for each column that is added to a product, or None."""
    if not named(expr, "relax.add"):
        return None
    first, other = expr.args
    if other.same_as(product):
        first, other = other, first
    if not first.same_as(product) or not isinstance(other, GenericConst) or other.ty.ndim != 1:
        return None
    same = tvm_ffi.structural_equal(other.ty.shape.values[0], product.ty.shape.values[-1])
    return other if same else None
