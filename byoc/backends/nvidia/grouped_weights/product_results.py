"""What follows a product with packed weights: the elementwise step of the PrimFunc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.tir import loads, seq, static
from .....analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from .....analysis.support.tvm_compat import TensorLoad
from ..schedules.program.gpu_program import NoGpuSchedule, expanded
from ..schedules.program.thread_loops import number, store
from .grouped_product import GroupedProduct


@dataclass(frozen=True)
class ProductResults:
    """The statements that store the results of a product."""

    what: GroupedProduct

    def __call__(self, m: Any, n: Any, total: Any) -> Any:
        """The result of row m and column n, whose sum is known."""
        what = self.what
        if what.experts is not None:
            m = what.experts.row
        total = as_dtype(total, str(what.result.ty.dtype))
        if what.last is None or what.program is None:
            return store(what.result, total, *self.place(what.result, m, n))
        (update,) = what.last.updates
        where = NodeDict[Any]()
        extents = [static(a.extent) or 0 for a in what.last.axes]
        if not extents or extents[-1] != what.columns:
            raise NoGpuSchedule("what follows the product has other columns")
        for axis, value in zip(what.last.axes, [*digits(m, extents[:-1]), n], strict=True):
            where[axis.var] = as_dtype(value, str(axis.var.ty.dtype))
        lets, value = expanded(update.value, what.program.definitions)
        where_all, out = where, []
        for var, part in lets:
            new = tirx.Var(var.name, str(var.ty.dtype))
            out.append(tirx.Bind(new, self.with_product(part, where_all, m, n, total)))
            where_all[var] = new
        value = self.with_product(value, where_all, m, n, total)
        indices = [_simple(substitute(i, where)) for i in update.indices]
        return seq([*out, store(update.buffer, value, *indices)])

    def place(self, buffer: Any, row: Any, column: Any) -> list[Any]:
        """The indices of an element of the product."""
        extents = [static(e) or 0 for e in items(buffer.ty.shape)]
        if not extents or extents[-1] != self.what.columns:
            raise NoGpuSchedule("the columns of the product are not its last axis")
        return [*digits(row, extents[:-1]), column]

    def with_product(self, expr: Any, where: Any, row: Any, column: Any, total: Any) -> Any:
        """An expression with the total in place of the element of the product."""
        result = self.what.result
        expr = substitute(expr, where)
        expected = self.place(result, row, column)
        known = NodeDict[Any]()
        for access in loads(expr):
            if not access.source.same_as(result):
                continue
            pairs = zip(items(access.indices), expected, strict=True)
            if not all(_equal(a, b) for a, b in pairs):
                raise NoGpuSchedule("what follows the product reads other elements of it")
            known[access] = total
        return _replaced(expr, known)


def digits(index: Any, extents: list[int]) -> list[Any]:
    """The coordinates of a flat index, which is a literal or a variable, over some extents."""
    out: list[Any] = []
    after = 1
    for extent in reversed(extents):
        value = number(0) if extent == 1 else index
        if extent != 1 and after != 1:
            value = tirx.floordiv(value, number(after))
        left = extents[: len(extents) - len(out) - 1]
        if extent != 1 and any(e != 1 for e in left):
            value = tirx.floormod(value, number(extent))
        out.append(_simple(value))
        after *= extent
    return out[::-1]


def _simple(expr: Any) -> Any:
    return tvm.sym.Analyzer().simplify(expr)


def _equal(a: Any, b: Any) -> bool:
    return bool(tvm.sym.Analyzer().can_prove_equal(a, as_dtype(b, str(a.ty.dtype))))


def _replaced(expr: Any, known: NodeDict[Any]) -> Any:
    def load_(node: Any, mutator: Any) -> Any:
        value = known.get(node)
        return mutator.default_mutate(node) if value is None else value

    return tvm_ffi.structural_mutate(expr, (TensorLoad, load_))
