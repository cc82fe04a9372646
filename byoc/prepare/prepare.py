"""Prepare a module for backends: inference forms, constants folded, operators lowered.

Before: R.nn.batch_norm(x, gamma, beta, mean, var)     R.sum(R.stack((a, b), axis=0), axis=[0])
After:  x * (gamma / √(var + ε)) + (beta - mean …)      a + b

Elementwise operators move before reshapes (`byoc.prepare.sink_reshapes`), and products of few rows
with the same weights become one (`byoc.prepare.merging.merge_products`). For libraries that lack
products of float16, these become products of float32 (`byoc.prepare.widen_halves`). For backends
that read views in place, those of a GPU, products of the same tensor become one
(`byoc.prepare.merging.merge_projections`), each slice of a moved tensor gets its own move
(`byoc.prepare.split_slices`), and images and rolls get other forms (`byoc.prepare.gpu`), as
products of dequantised numbers do for those that multiply 8-bit numbers. What is bound outside of
dataflow blocks moves into such, as in the branches of a conditional, so that regions form there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from ...analysis.proposal.legalise import legalise_module
from ...analysis.support.progress import stage
from ...analysis.support.tvm_compat import GenericConst, array_of
from ..backend.backend import Backend
from ..backend.catalog import resolve_backends, unusable
from ..backend.guarded_calls import guarded
from .constants.constant_places import read_at_places
from .constants.fold_constants import fold_constants
from .constants.uniform_values import fold_uniform_values
from .gpu.eight_bit_products import eight_bit_products
from .gpu.index_runs import slice_index_runs
from .gpu.pad_channels import pad_channels
from .gpu.patch_products import patch_products
from .gpu.row_versions import row_versions
from .merging.merge_products import merge_products
from .merging.merge_projections import merge_projections
from .mutation.bindings import bound_value
from .mutation.cast_spans import with_spans_of
from .mutation.mutate import mutated, named
from .qdq import (
    ReadScales,
    bind_scales,
    parametrise_scales,
    quantized,
    read_scales,
    runtimes,
    taking,
)
from .raising.gather_words import gather_words
from .raising.raise_groups import raise_groups
from .raising.raise_ops import raise_ops
from .raising.raise_products import dequantizes, may_dequantize, raise_products
from .sink_reshapes import sink_reshapes
from .split_slices import own_moves, split_slices
from .unguarded_softmax import drop_softmax_guards
from .unknown_sizes import refuse_unknown_sizes
from .widen_halves import widen_halves


def prepare(mod: Any, backends: Sequence[str | Backend] = (), *, relaid: bool = True) -> Any:
    """The lowered module; an already lowered module is raised first.

    Quantised constants stay integers if a pattern of a backend takes their dequantize
    (`byoc.prepare.qdq`); otherwise they are folded.

    Args:
        mod: The module; it is not changed.
        backends: Names or `Backend` objects.
        relaid: Layouts will be planned, so patterns may match in any layout.
    """
    return Preparer(mod)(backends, relaid)


class Preparer:
    """`prepare` for several sets of backends; what does not depend on them is done once."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        self._raised: dict[bool, Any] = {}  # by whether a backend is coarse
        self._lowered: list[tuple[Any, bool, Any]] = []  # by the raised module, and for views
        self._groups: list[tuple[Any, Any]] = []  # by the raised module
        self._versions: list[tuple[Any, Any]] = []  # in the same way
        self._widened: list[tuple[Any, Any]] = []  # in the same way
        self._eight_bits: list[tuple[Any, Any]] = []  # in the same way
        self._held_back: list[tuple[Any, bool, ReadScales]] = []  # in the same way

    def __call__(self, backends: Sequence[str | Backend] = (), relaid: bool = True) -> Any:
        """The lowered module for these backends; see `prepare`."""
        stage("legalising")
        named_backends = resolve_backends(backends)
        coarse = any(b.coarse for b in named_backends)
        views = any(b.views for b in named_backends)
        raised = self._raised_for(coarse)
        if any(b.groups for b in named_backends):
            raised = self._groups_of(raised)
        if any(b.row_versions for b in named_backends):
            raised = self._versions_of(raised)
        usable = [guarded(b, []) for b in named_backends]  # `dispatch` reports failures
        raised = self._eight_bits_of(raised, usable)
        if named_backends and all(b.widens for b in named_backends) and not self.few_bits:
            raised = self._widened_of(raised)
        if not (taking(usable) or runtimes(usable)) or not quantized(raised):
            for known, of, out in self._lowered:
                if raised is known and of == views:
                    return out
            self._lowered.append((raised, views, _lowered(raised, views)))
            return self._lowered[-1][2]
        return bind_scales(self._read_scales(raised, views), usable, fold_constants, relaid)

    def _read_scales(self, raised: Any, views: bool) -> ReadScales:
        """The lowered module with its scales as parameters."""
        for known, of, out in self._held_back:
            if raised is known and of == views:
                return out
        held_back = parametrise_scales(raised)
        out = read_scales(_lowered(held_back.module, views), held_back.scales)
        self._held_back.append((raised, views, out))
        return out

    def _groups_of(self, raised: Any) -> Any:
        """The module with products of groups of rows, if it has any."""
        for known, out in self._groups:
            if known is raised:
                return out
        self._groups.append((raised, raise_groups(raised)))
        return self._groups[-1][1]

    def _versions_of(self, raised: Any) -> Any:
        """The module with versions for one row."""
        for known, out in self._versions:
            if known is raised:
                return out
        self._versions.append((raised, row_versions(raised) if self.few_bits else raised))
        return self._versions[-1][1]

    def _eight_bits_of(self, raised: Any, backends: Sequence[Backend]) -> Any:
        """The module with products of 8-bit numbers, if a backend takes such."""
        taking = [b for b in backends if b.eight_bits is not None and unusable(b) is None]
        if not taking:
            return raised
        for known, out in self._eight_bits:
            if known is raised:
                return out
        refuses = taking[0].eight_bits
        assert refuses is not None
        self._eight_bits.append((raised, eight_bit_products(raised, refuses)))
        return self._eight_bits[-1][1]

    def _widened_of(self, raised: Any) -> Any:
        """The module with products of float16 in float32."""
        for known, out in self._widened:
            if known is raised:
                return out
        self._widened.append((raised, widen_halves(raised)))
        return self._widened[-1][1]

    @cached_property
    def few_bits(self) -> bool:
        """Whether the module dequantises by group, as written or raised.

        A PrimFunc of integers of 8 bits need not: the importer writes a quantised LSTM as one.
        """
        return may_dequantize(self.mod) and dequantizes(self._raised_for(False))

    def _raised_for(self, coarse: bool) -> Any:
        """The module in Relax operators, without splits for coarse backends."""
        if coarse not in self._raised:
            if coarse:
                self._raised[True] = split_slices(self._raised_for(False))
            else:
                calls = _has_calls(self.mod)
                self._raised[False] = _raised(self.mod) if calls else self.mod
        return self._raised[coarse]


def _lowered(mod: Any, views: bool = False) -> Any:
    raised = drop_softmax_guards(fold_uniform_values(fold_constants(mod)))
    out = relax.transform.CanonicalizeBindings()(mutated(raised, _Inference(raised)))
    out = sink_reshapes(out)
    out = fold_constants(out)
    out = with_spans_of(out, relax.transform.ConvertToDataflow()(out))
    if views:
        out = slice_index_runs(pad_channels(patch_products(out)))
        out = own_moves(merge_projections(split_slices(out)))
        # patterns do not follow `y = x`
        out = with_spans_of(out, relax.transform.CanonicalizeBindings()(out))
    out = legalise_module(merge_products(out))
    refuse_unknown_sizes(out)
    return fold_constants(out)


def _raised(mod: Any) -> Any:
    return gather_words(raise_products(raise_ops(mod).module))


def _has_calls(mod: Any) -> bool:
    return any(isinstance(f, tvm.tirx.PrimFunc) for _, f in mod.functions_items())


#: Reductions, and the operators of two that they repeat.
_STACKED = {"relax.sum": relax.op.add, "relax.max": relax.op.maximum,
            "relax.min": relax.op.minimum}  # fmt: skip


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
