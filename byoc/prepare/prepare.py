"""Prepare a module for backends: inference forms, constants folded, operators lowered.

Operators get the forms that they have in inference (`byoc.prepare.inference_forms`). Elementwise
ones move before reshapes (`byoc.prepare.sink_reshapes`), and products of few rows with the same
weights become one (`byoc.prepare.merging.merge_products`). For libraries that lack products of
float16, these become products of float32 (`byoc.prepare.widen_halves`). For backends that read
views in place, those of a GPU, products of the same tensor become one
(`byoc.prepare.merging.merge_projections`), each slice of a moved tensor gets its own move
(`byoc.prepare.split_slices`), and images and rolls get other forms (`byoc.prepare.gpu`), as
products of dequantised numbers do for those that multiply 8-bit numbers. What is bound outside of
dataflow blocks moves into such, as in the branches of a conditional, so that regions form there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import tvm
from tvm import relax

from ...analysis.proposal.legalise import legalise_module
from ...analysis.support.progress import stage
from ..backend.backend import Backend
from ..backend.catalog import resolve_backends, unusable
from ..backend.guarded_calls import guarded
from .constants.fold_constants import fold_constants
from .constants.uniform_values import fold_uniform_values
from .gpu.eight_bit_products import eight_bit_products
from .gpu.index_runs import slice_index_runs
from .gpu.pad_channels import pad_channels
from .gpu.patch_products import patch_products
from .gpu.row_versions import row_versions
from .inference_forms import inference_forms
from .merging.merge_products import merge_products
from .merging.merge_projections import merge_projections
from .mutation.cast_spans import with_spans_of
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
        self._done: list[tuple[Any, tuple[Any, ...], Any]] = []  # a step, its operands, the result

    def __call__(self, backends: Sequence[str | Backend] = (), relaid: bool = True) -> Any:
        """The lowered module for these backends; see `prepare`."""
        stage("legalising")
        named_backends = resolve_backends(backends)
        views = any(b.views for b in named_backends)
        raised = self._raised
        if any(b.coarse for b in named_backends):
            raised = self._once(split_slices, raised)
        if any(b.groups for b in named_backends):
            raised = self._once(raise_groups, raised)
        if any(b.row_versions for b in named_backends) and self.few_bits:
            raised = self._once(row_versions, raised)
        usable = [guarded(b, []) for b in named_backends]  # `dispatch` reports failures
        for own, backend in zip(named_backends, usable, strict=True):
            if backend.eight_bits and unusable(backend) is None:
                raised = self._once(_eight_bits, raised, own, given=backend.eight_bits)
                break
        if named_backends and all(b.widens for b in named_backends) and not self.few_bits:
            raised = self._once(widen_halves, raised)
        if not (taking(usable) or runtimes(usable)) or not quantized(raised):
            return self._once(_lowered, raised, views)
        scales = self._once(_read_scales, raised, views)
        return bind_scales(scales, usable, fold_constants, relaid)

    def _once(self, step: Callable[..., Any], raised: Any, *more: Any, **given: Any) -> Any:
        """What a step made of the same module with the same ``more`` before, or makes of it now.

        ``given`` are further operands, which these have.
        """
        for known, (module, *others), out in self._done:
            if known is step and module is raised and others == [*more]:
                return out
        out = step(raised, *more, **given)
        self._done.append((step, (raised, *more), out))
        return out

    @cached_property
    def few_bits(self) -> bool:
        """Whether the module dequantises by group, as written or raised.

        A PrimFunc of integers of 8 bits need not: the importer writes a quantised LSTM as one.
        """
        return may_dequantize(self.mod) and dequantizes(self._raised)

    @cached_property
    def _raised(self) -> Any:
        """The module in Relax operators."""
        return _raised(self.mod) if _has_calls(self.mod) else self.mod


def _eight_bits(raised: Any, backend: Backend, given: Callable[..., str | None]) -> Any:
    """The module with the products of 8-bit numbers that a backend takes, as ``given`` says."""
    return eight_bit_products(raised, given)


def _read_scales(raised: Any, views: bool) -> ReadScales:
    """The lowered module with its scales as parameters."""
    held_back = parametrise_scales(raised)
    return read_scales(_lowered(held_back.module, views), held_back.scales)


def _lowered(mod: Any, views: bool = False) -> Any:
    raised = drop_softmax_guards(fold_uniform_values(fold_constants(mod)))
    out = relax.transform.CanonicalizeBindings()(inference_forms(raised))
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
