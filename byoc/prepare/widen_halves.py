"""Multiply float16 as float32 where sums are float32 anyway: libraries for CPUs have that.

Before: y = R.nn.conv2d(x, w, out_dtype="float32")             x and w of float16
        z = R.nn.relu(R.astype(y, "float16"))
After:  y = R.nn.conv2d(R.astype(x, "float32"), R.astype(w, "float32"))
        r = R.nn.relu(R.astype(R.astype(y, "float16"), "float32"))
        z = R.astype(r, "float16")

float32 has all numbers of float16, so products and sums are those of before; so are operators that
move numbers or keep some of them, which follow into float32. Where a result was rounded to float16,
it still is: a number that float16 does not have becomes its nearest one, or infinite.

Products of few rows read their weights once, for which half the bytes are faster: they stay.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.ir import Op as IrOp

from ...analysis.lifting.tir.node import NodeDict
from .mutation.bindings import final_value
from .mutation.mutate import mutated, named

HALF, WIDE = "float16", "float32"
#: The fewest rows of a product that is worth twice the bytes of its weights.
ROWS = 16
_CONVOLUTIONS = frozenset(f"relax.nn.conv{n}" for n in (
    "1d", "2d", "3d", "1d_transpose", "2d_transpose", "3d_transpose"))  # fmt: skip
#: Operators of one tensor whose result has only numbers of it, zeros, or numbers of both dtypes.
_MOVES = frozenset(f"relax.{n}" for n in (
    "nn.relu", "nn.relu6", "reshape", "flatten", "permute_dims", "expand_dims", "squeeze",
    "strided_slice", "concat", "abs", "negative", "max", "min"))  # fmt: skip
_MAX_POOLS = frozenset(f"relax.nn.max_pool{n}d" for n in (1, 2, 3))


def widen_halves(mod: Any) -> Any:
    """The module with products of float16 in float32; the input is not changed."""
    if not any(_has_products(f) for _, f in mod.functions_items() if isinstance(f, relax.Function)):
        return mod
    return relax.transform.DeadCodeElimination()(mutated(mod, _Widened(mod)))


def _has_products(func: Any) -> bool:
    found: list[Any] = []
    relax.analysis.post_order_visit(func, lambda e: found.append(e) if _multiplies(e) else None)
    return bool(found)


def _multiplies(expr: Any) -> bool:
    """Whether a call sums products of float16 in float32, and is one to widen."""
    name = expr.op.name if isinstance(getattr(expr, "op", None), IrOp) else ""
    if name != "relax.matmul" and name not in _CONVOLUTIONS:
        return False
    if str(expr.ty.dtype) != WIDE or any(str(a.ty.dtype) != HALF for a in expr.args):
        return False
    return name in _CONVOLUTIONS or _rows(expr.args[0]) >= ROWS


def _rows(data: Any) -> int:
    """The rows of the first operand of a product of matrices; 1 if they are unknown."""
    extents = data.ty.shape.values if isinstance(data.ty.shape, relax.ShapeExpr) else ()
    row = list(extents)[-2:-1]
    return int(row[0]) if row and isinstance(row[0], tvm.tirx.IntImm) else 1


@relax.expr_functor.mutator
class _Widened(relax.PyExprMutator):  # type: ignore[misc]
    """Computes products of float16, and what moves their numbers, in float32."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        #: The casts to float32 of a block, by what is cast.
        self.casts: NodeDict[Any] | None = None

    def visit_dataflow_block_(self, block: Any) -> Any:
        self.casts = NodeDict()
        block = super().visit_dataflow_block_(block)
        self.casts = None
        return block

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if _multiplies(call):
            return relax.Call(call.op, [self.wide(a) for a in call.args], call.attrs)
        if named(call, "relax.astype") and str(call.args[0].ty.dtype) == HALF:
            return self.wide(call.args[0]) if str(call.attrs.dtype) == WIDE else call
        return self.moved(call) if _moves(call) else call

    def moved(self, call: Any) -> Any:
        """An operator that moves numbers of float16, in float32."""
        data, *others = call.args
        if named(call, "relax.concat"):
            parts = final_value(self, data)
            if not isinstance(parts, relax.Tuple):
                return call
            data = relax.Tuple([self.wide(part) for part in parts.fields])
        else:
            data = self.wide(data)
        result = self.builder_.emit(relax.Call(call.op, [data, *others], call.attrs))
        return relax.op.astype(result, HALF)

    def wide(self, half: Any) -> Any:
        """The numbers of a tensor of float16, as float32."""
        value = final_value(self, half)
        if named(value, "relax.astype") and self.has_halves(value.args[0]):
            return value.args[0]
        if self.casts is not None and half in self.casts:
            return self.casts[half]
        cast = self.builder_.emit(relax.op.astype(half, WIDE))
        if self.casts is not None:
            self.casts[half] = cast
        return cast

    def has_halves(self, wide: Any) -> bool:
        """Whether all numbers of a tensor of float32 are known to be of float16."""
        value = final_value(self, wide)
        if named(value, "relax.astype"):
            return str(value.args[0].ty.dtype) == HALF
        if named(value, "relax.concat"):
            parts = final_value(self, value.args[0])
            return isinstance(parts, relax.Tuple) and all(map(self.has_halves, parts.fields))
        return _named_move(value) and self.has_halves(value.args[0])


def _moves(call: Any) -> bool:
    """Whether a call moves numbers of float16."""
    return str(getattr(call.ty, "dtype", "")) == HALF and _named_move(call)


def _named_move(expr: Any) -> bool:
    name = expr.op.name if isinstance(getattr(expr, "op", None), IrOp) else ""
    if name in _MAX_POOLS:  # what is padded is the least number of the dtype
        return not any(int(p) for p in expr.attrs.padding) and not expr.attrs.ceil_mode
    return name in _MOVES
