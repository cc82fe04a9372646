"""QDQ propagation: layout-only and selecting operators move before dequantize.

    reshape(dequantize(q))                     dequantize(reshape(q))
    quantize(dequantize(q)), the same scale    q, as round((q - z) s / s) + z = q
    quantize(concat(dequantize(q), y))         concat(quantize(dequantize(q)), quantize(y))
    f(y), g(y) of y = dequantize(q)            f(dequantize(q)), g(dequantize(q))

Max pooling selects elements, and a positive scale keeps their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ...analysis.composites.grouped import DEQUANTIZE as GROUPED
from ...analysis.lifting.tir.node import items
from ...analysis.support.tvm_compat import GenericConst, array_of
from .mutation.mutate import named

QUANTIZE, DEQUANTIZE = "relax.quantize", "relax.dequantize"
SMALL = ("int8", "uint8")
#: Operators that keep the order of elements in memory.
RESHAPES = ("relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims")
POOLS = tuple(f"relax.nn.max_pool{n}d" for n in (1, 2, 3))
Scales = tuple[Any, ...]


@relax.expr_functor.mutator
class Integers(relax.PyExprMutator):  # type: ignore[misc]
    """Moves operators before dequantize, and collects the scales that become parameters."""

    def function(self, func: Any, writes: bool) -> tuple[Any, Scales]:
        """The function with scales as additional parameters, and their values.

        Args:
            func: The function.
            writes: Whether it may write into tensors: what is not constant is then not read later.
        """
        self.writes = writes
        self.parameters: list[Any] = []
        self.scales: list[Any] = []
        out = self.visit_expr(func)
        if not self.parameters:
            return out, ()
        params = [*out.params, *self.parameters]
        out = relax.Function(params, out.body, out.ret_ty, out.is_pure, out.attrs, out.span)
        return out, tuple(self.scales)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if named(call, DEQUANTIZE):
            return self.scaled(call)
        if named(call, GROUPED):
            return self.held_back(call)
        if named(call, QUANTIZE):
            return self.quantized(call)
        moved = self.moved(call)
        if moved is not None:
            return self.scaled(moved)
        return self.with_copies(call)

    def quantized(self, call: Any) -> Any:
        """A quantize without the dequantize before it, also through a concat."""
        before = self.dequantize(call.args[0])
        if before is not None and _undone(before, call):
            return before.args[0]
        data = call.args[0]
        joined: Any = None
        if before is None and isinstance(data, relax.Var):  # data may also be a constant
            joined = self.lookup_binding(data)
        if not named(joined, "relax.concat") or any(_size(a) != 1 for a in call.args[1:]):
            return self.with_copies(call)
        parts = joined.args[0]
        if isinstance(parts, relax.Var):
            parts = self.lookup_binding(parts)
        if not isinstance(parts, relax.Tuple):
            return call
        if all(self.dequantize(p) is None for p in items(parts.fields)):
            return call
        each = [relax.op.quantize(p, *call.args[1:], axis=-1, out_dtype=call.attrs.out_dtype)
                for p in items(parts.fields)]  # fmt: skip
        quantized = [self.builder_.emit(self.quantized(self.builder_.normalize(q))) for q in each]
        return relax.op.concat(quantized, joined.attrs.axis)

    def with_copies(self, call: Any) -> Any:
        """The call with a separate dequantize for each operand."""
        sources = [self.dequantize(a, DEQUANTIZE, GROUPED) for a in call.args]
        if not any(source is not None for source in sources):
            return call
        copies = [a if source is None else self.builder_.emit(source)
                  for a, source in zip(call.args, sources, strict=True)]  # fmt: skip
        return relax.Call(call.op, copies, call.attrs, call.ty_args, call.span)

    def dequantize(self, expr: Any, *names: str) -> Any:
        """The dequantize that produces a value; None if another operator does."""
        call = self.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        if call is None or not any(named(call, n) for n in names or (DEQUANTIZE,)):
            return None
        return None if self.writes and not all(map(self.is_constant, call.args)) else call

    def moved(self, call: Any) -> Any:
        """The dequantize after a layout-only or selecting operator, or None for other operators."""
        before = self.dequantize(call.args[0]) if len(call.args) else None
        if before is None or getattr(call.ty, "ndim", 0) == 0:  # a tuple has no rank
            return None
        single = all(_size(a) == 1 for a in before.args[1:])
        axis = int(before.attrs.axis) % max(before.args[0].ty.ndim, 1)
        if named(call, "relax.permute_dims"):
            rank = before.args[0].ty.ndim
            axes = [int(a) % rank for a in call.attrs.axes or range(rank)[::-1]]
            axis = axes.index(axis)
        elif not single or not (any(named(call, n) for n in RESHAPES) or _selects(call, before)):
            return None
        data = self.builder_.emit(relax.Call(call.op, [before.args[0], *call.args[1:]], call.attrs))
        axis = -1 if single else axis
        return relax.op.dequantize(
            data, *before.args[1:], axis=axis, out_dtype=before.attrs.out_dtype
        )

    def scaled(self, call: Any) -> Any:
        """A constant's dequantize with its scale as a parameter; only for integers of 8 bits."""
        if (
            str(call.args[0].ty.dtype) not in SMALL
            or not self.is_constant(call.args[0])
            or not isinstance(call.args[1], GenericConst)
        ):
            return call
        var = self.parameter(call.args[1])
        return relax.op.dequantize(
            call.args[0], var, call.args[2], axis=call.attrs.axis, out_dtype=call.attrs.out_dtype
        )

    def held_back(self, call: Any) -> Any:
        """A dequantisation of constants by group with its scale as a parameter."""
        if not isinstance(call.args[1], GenericConst) or not all(map(self.is_constant, call.args)):
            return call
        args = [call.args[0], self.parameter(call.args[1]), *call.args[2:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args, call.span)

    def parameter(self, scale: Any) -> Any:
        """A parameter of the function for a scale."""
        var = relax.Var(f"scale_{len(self.scales)}", scale.ty)
        self.parameters.append(var)
        self.scales.append(scale)
        return var

    def is_constant(self, expr: Any, depth: int = 8) -> bool:
        """Whether a value depends on constants only, through at most ``depth`` operators."""
        if isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        if isinstance(expr, relax.Call):
            return depth > 0 and all(self.is_constant(a, depth - 1) for a in expr.args)
        return isinstance(expr, (GenericConst, relax.ShapeExpr))


def _size(expr: Any) -> int | None:
    """The number of elements, if known."""
    shape = getattr(getattr(expr.ty, "shape", None), "values", None)
    if shape is None or not all(hasattr(n, "value") for n in shape):
        return None
    return int(np.prod([int(n.value) for n in shape]))


def _selects(call: Any, before: Any) -> bool:
    """Whether a call is max pooling that commutes with a dequantize.

    The scale must be positive, and each window must have an element inside the image.
    """
    small = str(before.args[0].ty.dtype) in SMALL and isinstance(before.args[1], GenericConst)
    if not small or not any(named(call, n) for n in POOLS):
        return False
    attrs = call.attrs
    n = len(attrs.pool_size)
    inside = [max(int(p) for p in attrs.padding[k::n]) < int(w)
              for k, w in enumerate(attrs.pool_size)]  # fmt: skip
    plain = not attrs.ceil_mode and all(int(d) == 1 for d in attrs.dilation)
    return plain and all(inside) and bool((array_of(before.args[1]).numpy() > 0).all())


def _undone(before: Any, call: Any) -> bool:
    """Whether a quantize restores the 8-bit integers that a dequantize read."""
    dtypes = {str(before.args[0].ty.dtype), str(call.attrs.out_dtype)}
    wide = {str(before.attrs.out_dtype), str(call.args[1].ty.dtype)}
    if len(dtypes) != 1 or dtypes.isdisjoint(SMALL) or wide != {"float32"}:
        return False
    if not all(_size(a) == 1 and tvm_ffi.structural_equal(a, b)
               for a, b in zip(before.args[1:], call.args[1:], strict=True)):  # fmt: skip
        return False
    scale = call.args[1]
    return isinstance(scale, GenericConst) and 1e-30 < float(array_of(scale).numpy().max()) < 1e30
