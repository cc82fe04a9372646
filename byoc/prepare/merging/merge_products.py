"""Merge the products of few rows with the same weights, as unrolled recurrent layers have them.

Before: y0 = R.matmul(x0, w); z0 = R.add(y0, b); y1 = R.matmul(x1, w); z1 = R.add(y1, b)
After:  y = R.matmul(R.concat((x0, x1)), w); z = R.add(y, b); z0 = z[0:1]; z1 = z[1:2]

The weights are read once. Products of which one depends on another stay apart, such as those with
the hidden states of consecutive steps. A row of a product does not depend on other rows, so results
differ by rounding at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.bindings import variables_read
from ..mutation.dataflow_blocks import with_dataflow_blocks
from ..mutation.mutate import named

#: Products are merged if the weights have this many times as many rows and columns as all of them
#: have rows together: copies of rows are small beside the weights then.
WIDER = 2
#: Elements of a constant that are compared before all are.
SAMPLES = 256


def merge_products(mod: Any) -> Any:
    """The module with products merged in its dataflow blocks; the input is not changed."""
    return with_dataflow_blocks(mod, lambda builder, block: _Block(builder, block).merged())


@dataclass(frozen=True)
class _Product:
    """A product, and the sum that alone reads it, if there is one.

    Attributes:
        call: The product.
        result: The binding of the sum or the product.
        bias: The constant that is added, or None.
    """

    call: Any
    result: Any
    bias: Any

    @property
    def arrays(self) -> list[Any]:
        """The constants."""
        constants = [self.call.args[1], *([] if self.bias is None else [self.bias])]
        return [array_of(constant).numpy() for constant in constants]

    @property
    def rows(self) -> int:
        return int(self.call.args[0].ty.shape.values[0])


class _Block:
    """The bindings of a dataflow block by their variables."""

    def __init__(self, builder: Any, block: Any) -> None:
        self.builder, self.block = builder, block
        self.bindings: list[Any] = list(block.bindings)

    def merged(self) -> Any:
        if not all(isinstance(b, relax.VarBinding) for b in self.bindings):
            return self.block  # a match_cast defines symbols in an order of its own
        changed = False
        for group in _alike(self._products()):
            if len(group) > 1 and _small(group) and self._independent(group):
                self._merge(group)
                changed = True
        return relax.DataflowBlock(self.bindings) if changed else self.block

    def _products(self) -> Iterator[_Product]:
        readers: NodeDict[list[Any]] = NodeDict()
        for binding in self.bindings:
            for var in variables_read(binding.value):
                readers[var] = [*(readers.get(var) or []), binding]
        for binding in self.bindings:
            call = binding.value
            if not named(call, "relax.matmul") or not isinstance(call.args[1], GenericConst):
                continue
            if call.args[1].ty.ndim != 2 or not _is_matrix(call.args[0]):
                continue
            after = readers.get(binding.var) or []
            alone = isinstance(binding.var, relax.DataflowVar) and len(after) == 1
            bias = _bias(after[0].value, binding.var) if alone else None
            yield _Product(call, binding if bias is None else after[0], bias)

    def _independent(self, group: Sequence[_Product]) -> bool:
        """Whether no product of a group is computed from another one."""
        depends: NodeDict[bool] = NodeDict()
        for product in group:
            depends[product.result.var] = True
        for binding in self.bindings:
            if not depends.get(binding.var):
                depends[binding.var] = any(depends.get(v) for v in variables_read(binding.value))
        return not any(depends.get(v) for p in group for v in variables_read(p.call))

    def _merge(self, group: Sequence[_Product]) -> None:
        first, made = group[0], []

        def bind(expr: Any) -> Any:
            value = self.builder.normalize(expr)
            var = relax.DataflowVar("merged", value.ty)
            made.append(relax.VarBinding(var, value))
            return var

        rows = bind(relax.Tuple([p.call.args[0] for p in group]))
        whole = bind(relax.op.concat(rows, 0))
        call = first.call
        product = bind(relax.op.matmul(whole, call.args[1], call.attrs.out_dtype))
        whole = product if first.bias is None else bind(relax.op.add(product, first.bias))
        begin, replaced = 0, NodeDict[Any]()
        for part in group:
            end = begin + part.rows
            value = self.builder.normalize(relax.op.strided_slice(whole, [0], [begin], [end]))
            replaced[part.result.var] = relax.VarBinding(part.result.var, value)
            begin = end
        self.bindings = _ordered([*made, *(replaced.get(b.var) or b for b in self.bindings)])


def _alike(products: Iterable[_Product]) -> Iterator[list[_Product]]:
    """The products with equal constants. Only of those with equal samples all elements are read."""
    likely: dict[Any, list[list[_Product]]] = {}
    for product in products:
        arrays = product.arrays
        samples = ((a.shape, str(a.dtype), a.reshape(-1)[:: a.size // SAMPLES + 1].tobytes())
                   for a in arrays)  # fmt: skip
        dtypes = str(product.call.attrs.out_dtype), str(product.call.args[0].ty.dtype)
        groups = likely.setdefault((*dtypes, *samples), [])
        same = (g for g in groups if all(map(np.array_equal, g[0].arrays, arrays)))
        if (group := next(same, None)) is None:
            groups.append([product])
        else:
            group.append(product)
    for groups in likely.values():
        yield from groups


def _ordered(bindings: Sequence[Any]) -> list[Any]:
    """Bindings in an order in which each variable is bound before it is read."""
    of: NodeDict[Any] = NodeDict()
    for binding in bindings:
        of[binding.var] = binding
    out: list[Any] = []
    done: NodeDict[bool] = NodeDict()
    for binding in bindings:
        stack = [binding]
        while stack:
            top = stack[-1]
            needed = [of[v] for v in variables_read(top.value) if v in of and v not in done]
            if needed:
                stack.extend(needed)
                continue
            stack.pop()
            if top.var not in done:
                done[top.var] = True
                out.append(top)
    return out


def _is_matrix(expr: Any) -> bool:
    shape = getattr(expr.ty, "shape", None)
    extents = getattr(shape, "values", ())
    return len(extents) == 2 and all(hasattr(e, "value") for e in extents)


def _bias(expr: Any, product: Any) -> Any:
    """The constant row that an expression adds to a product; None for other expressions."""
    if not named(expr, "relax.add"):
        return None
    other = expr.args[1] if expr.args[0].same_as(product) else expr.args[0]
    rank = other.ty.ndim if isinstance(other, GenericConst) else None
    row = rank == 1 or (rank == 2 and int(other.ty.shape.values[0]) == 1)
    return other if row and expr.ty.ndim == 2 else None


def _small(group: Sequence[_Product]) -> bool:
    depth, columns = (int(e) for e in group[0].call.args[1].ty.shape.values)
    return WIDER * sum(p.rows for p in group) <= min(depth, columns)
