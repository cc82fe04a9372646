"""Operators in the forms that they have in inference.

Before: R.nn.batch_norm(x, gamma, beta, mean, var)     R.sum(R.stack((a, b), axis=0), axis=[0])
After:  x * (gamma / √(var + ε)) + (beta - mean …)      a + b
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ...analysis.support.tvm_compat import GenericConst, array_of
from .constants.constant_places import read_at_places
from .mutation.bindings import bound_value
from .mutation.mutate import mutated, named

#: Reductions, and the operators of two that they repeat.
_STACKED = {"relax.sum": relax.op.add, "relax.max": relax.op.maximum,
            "relax.min": relax.op.minimum}  # fmt: skip


def inference_forms(mod: Any) -> Any:
    """The module with operators of inference in place of others; ``mod`` is not changed."""
    return mutated(mod, _Inference(mod))


@relax.expr_functor.mutator
class _Inference(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces operators by their inference forms."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if named(call, "relax.nn.batch_norm"):
            return _affine(self.builder_, call)
        for reduction, combine in _STACKED.items():
            if named(call, reduction):
                return self.combined(call, combine)
        if named(call, "relax.where"):
            return _selected(call)
        if named(call, "relax.scatter_nd"):
            return read_at_places(self, call)
        if named(call, "relax.matmul"):
            return self.unspread(call)
        if any(named(call, f"relax.nn.{n}") for n in ("attention", "attention_bias")):
            return self.in_float32(call)
        same = named(call, "relax.astype") and call.attrs.dtype == call.args[0].ty.dtype
        spread = named(call, "relax.broadcast_to")
        same = same or (spread and tvm_ffi.structural_equal(call.ty, call.args[0].ty))
        return call.args[0] if same else call

    def unspread(self, call: Any) -> Any:
        """A product whose second operand is not spread over the axes of batches."""
        spread = bound_value(self, call.args[1])
        if not named(spread, "relax.broadcast_to"):
            return call
        weight = spread.args[0]
        if weight.ty.shape is None or spread.ty.shape is None or call.ty.shape is None:
            return call
        moved = weight.ty.shape.values[-2:] if weight.ty.ndim >= 2 else ()
        if not moved or not tvm_ffi.structural_equal(
            relax.ShapeExpr(moved), relax.ShapeExpr(spread.ty.shape.values[-2:])):  # fmt: skip
            return call
        plain = self.builder_.normalize(relax.op.matmul(call.args[0], weight, call.attrs.out_dtype))
        return plain if tvm_ffi.structural_equal(plain.ty, call.ty) else call

    def in_float32(self, call: Any) -> Any:
        """Attention of halves, which TVM lowers to float32, with the cast of its result."""
        dtype = str(call.ty.dtype)
        if dtype not in ("float16", "bfloat16"):
            return call
        args = [self.builder_.emit(relax.op.astype(a, "float32")) for a in call.args]
        wide = self.builder_.emit(relax.Call(call.op, args, call.attrs, call.ty_args))
        return relax.op.astype(wide, dtype)

    def combined(self, call: Any, combine: Any) -> Any:
        """A reduction over stacked tensors as operators of two."""
        stacked = bound_value(self, call.args[0])
        if call.attrs.keepdims or not named(stacked, "relax.stack"):
            return call
        axes, axis = call.attrs.axis, stacked.attrs.axis
        parts = bound_value(self, stacked.args[0])
        if axes is None or [int(a) for a in axes] != [int(axis)] or not hasattr(parts, "fields"):
            return call
        total = parts.fields[0]
        for param in parts.fields[1:]:
            total = self.builder_.emit(combine(total, param))
        return total


def _selected(call: Any) -> Any:
    """The branch of a choice whose condition is one constant, if it has the type of the choice."""
    if not isinstance(call.args[0], GenericConst):
        return call
    values = array_of(call.args[0]).numpy()
    if values.size == 0 or (values != values.reshape(-1)[0]).any():
        return call
    branch = call.args[1 if values.reshape(-1)[0] else 2]
    return branch if tvm_ffi.structural_equal(branch.ty, call.ty) else call


def _affine(builder: Any, call: Any) -> Any:
    """Batch normalisation with constant statistics, as a factor and a term for each channel."""
    data, *statistics = call.args
    attrs = call.attrs
    if attrs.training or not all(isinstance(g, GenericConst) for g in statistics):
        return call
    gamma, beta, mean, var = (array_of(g).numpy().astype("float64") for g in statistics)
    factor = (gamma if attrs.scale else 1.0) / np.sqrt(var + attrs.epsilon)
    term = (beta if attrs.center else 0.0) - mean * factor
    shape = [1] * data.ty.ndim
    shape[int(attrs.axis)] = -1
    dtype = str(data.ty.dtype)

    def constant(array: Any) -> Any:
        return relax.const(np.ascontiguousarray(array.reshape(shape).astype(dtype)), dtype)

    scaled = builder.emit(relax.op.multiply(data, constant(factor)))
    moved = builder.emit(relax.op.add(scaled, constant(term)))
    return relax.Tuple([moved, statistics[2], statistics[3]])
