"""A PrimFunc over buffers in other layouts, proved to compute the same.

Before: out[n, c, h, w] = Σ pad[n, r, h + y, w + x] * w[c, r, y, x]     NCHW, OIHW
After:  out[n, h, w, c] = Σ pad[n, h + y, w + x, r] * w[c, y, x, r]     NHWC, OHWI
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import tee
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.block_terms import Opaque
from ...analysis.blocks.blocks import Standard, standard
from ...analysis.certify.structural_equality import ByStructure
from ...analysis.index_map.maps.to_terms import Unsupported
from ...analysis.lifting.tir.node import items
from ...analysis.results.op_info import Certificate, Refusal
from ..access.copies import copied_param, copies_in_order
from ..model.layout import Layout
from ..verify.blockwise import prove_stages
from ..verify.verify import LiftedFunction, lift_function, prove_moved
from .candidate_rewrite import CandidateRewrite, LoopOrder, Unmovable, write_candidate
from .checked_layouts import checked_layouts
from .inline import inlined
from .substitute import substituted

Layouts = tuple[Layout | None, ...]

#: What TVM raises for TIR that it rejects: InternalError and ScheduleError are RuntimeErrors, and
#: constructors of nodes assert.
TVM_RAISES = (AssertionError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Rewritten:
    """``func`` computes the same over buffers in ``layouts`` (None for a scalar).

    ``identity`` is the parameter whose memory the result equals, bit for bit: a pure copy.
    """

    func: Any
    layouts: Layouts
    certificate: Certificate
    identity: int | None = None


@dataclass(frozen=True)
class Unproved:
    """``func`` should compute the same over buffers in other layouts; ``identity`` as above."""

    func: Any
    identity: int | None = None


@dataclass(frozen=True)
class ParamAlias:
    """A call is not needed: the result is the memory of parameter ``identity``."""

    identity: int


def rewrite(
    func: Any, layouts: Sequence[Layout | None], loop_order: LoopOrder = "layout"
) -> Rewritten | Refusal:
    """The PrimFunc over buffers in these layouts, by parameter; None keeps a buffer's layout.

    With ``loop_order="layout"``, reductions run in the order of the operands' memory, outside a
    spatial loop over neighbours; with ``"tiled"``, also in tiles for registers. Results are then
    equal up to the order of sums. With ``"given"``, reductions keep their order.

    Raises ``TypeError`` or ``ValueError`` for arguments that do not fit the PrimFunc.
    """
    return Rewriter()(func, layouts, loop_order)


class Rewriter:
    """`rewrite`, once for structurally equal PrimFuncs and equal layouts."""

    def __init__(self, form: Callable[[Any], Standard] = standard) -> None:
        self._caches = ByStructure(partial(_FuncCache, form=form))

    def __call__(
        self, func: Any, layouts: Sequence[Layout | None], loop_order: LoopOrder = "layout"
    ) -> Rewritten | Refusal:
        full = checked_layouts(func, layouts)
        cache = self._caches(func)
        key = _key(full, loop_order)
        if key not in cache.results:
            cache.results[key] = _rewritten(cache, full, loop_order)
        result = cache.results[key]
        if isinstance(result, Refusal):
            return result
        return replace(result, func=_with_attributes(result.func, func))

    def unproved(
        self, func: Any, layouts: Sequence[Layout | None], loop_order: LoopOrder = "layout"
    ) -> Unproved | Refusal:
        """The proved form, or before there is one what is to be proved first.

        Returns:
            The form; a refusal if none can be written, or each was refused by its proof.
        """
        full = checked_layouts(func, layouts)
        cache = self._caches(func)
        known = cache.results.get(_key(full, loop_order))
        if isinstance(known, Refusal):
            return known
        if known is not None:
            return Unproved(_with_attributes(known.func, func), known.identity)
        reasons: dict[str, None] = {}
        for candidate in cache.candidates(full, loop_order):
            if not isinstance(candidate, Refusal):
                new = _with_attributes(candidate.func, func)
                return Unproved(new, copied_param(candidate.func))
            reasons[candidate.reason] = None
        return Refusal("; ".join(reasons))

    def aliased_param(self, func: Any, layouts: Sequence[Layout | None]) -> int | None:
        """The parameter whose memory the result equals, bit for bit, in these layouts.

        The proof is about the unchanged PrimFunc; no form over the layouts is needed.
        """
        full = checked_layouts(func, layouts)
        cache = self._caches(func)
        if full not in cache.aliased_params:
            cache.aliased_params[full] = _aliased_param(cache, full)
        return cache.aliased_params[full]


class _FuncCache:
    """The results for one PrimFunc, each computed once."""

    def __init__(self, func: Any, form: Callable[[Any], Standard]) -> None:
        self.func, self.form = func, form
        self.results: dict[Any, Rewritten | Refusal] = {}
        self.aliased_params: dict[Layouts, int | None] = {}
        self._candidates: dict[Hashable, Iterator[CandidateRewrite | Refusal]] = {}

    def candidates(
        self, layouts: Layouts, loop_order: LoopOrder
    ) -> Iterator[CandidateRewrite | Refusal]:
        """The candidates in these layouts, best first, each written once it is needed."""
        key = _key(layouts, loop_order)
        if key not in self._candidates:
            (self._candidates[key],) = tee(_candidates(self, layouts, loop_order), 1)
        return copy(self._candidates[key])  # it starts at the first one, and shares what is written

    @cached_property
    def lifted(self) -> LiftedFunction | Refusal:
        return lift_function(self.func)

    @cached_property
    def standard(self) -> Standard:
        """Raises `Opaque`."""
        return self.form(self.func)

    @cached_property
    def inlined(self) -> tuple[Any, Standard]:
        new = inlined(self.func, self.standard[0])
        return new, self.standard if new is self.func else standard(new)


def _key(layouts: Layouts, loop_order: LoopOrder) -> Hashable:
    """What a form depends on besides its PrimFunc: equal layouts may differ in pad values."""
    return layouts, tuple(x and x.pad_value for x in layouts), loop_order


def _rewritten(cache: _FuncCache, layouts: Layouts, loop_order: LoopOrder) -> Rewritten | Refusal:
    reasons: dict[str, None] = {}
    for candidate in cache.candidates(layouts, loop_order):
        if isinstance(candidate, Refusal):
            reasons[candidate.reason] = None
            continue
        try:
            proof = _proved(cache, candidate, layouts)
        except TVM_RAISES as error:
            proof = _refusal(error)
        if isinstance(proof, Certificate):
            return Rewritten(candidate.func, layouts, proof, copied_param(candidate.func))
        reasons[proof.reason] = None
    return Refusal("; ".join(reasons))


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, (Unmovable, Opaque, Unsupported)):
        return Refusal(str(error))
    lines = str(error).strip().splitlines() or [""]
    return Refusal(f"TVM rejects the rewritten function: {type(error).__name__}: {lines[-1]}")


def _aliased_param(cache: _FuncCache, layouts: Layouts) -> int | None:
    try:
        stages, _ = cache.standard
    except Opaque:
        return None
    stage = stages[0]
    if len(stages) > 1 or len(stage.reads) != 1 or len(stage.writes) != 1:
        return None
    params = items(cache.func.params)
    places = [next((k for k, p in enumerate(params) if p.same_as(a.buffer)), None)
              for a in (stage.reads[0], stage.writes[0])]  # fmt: skip
    if None in places or any(_strided(p) for p in params if is_buffer_var(p)):
        return None
    source, target = (layouts[k] for k in places if k is not None)
    if source is None or target is None or not copies_in_order(stage, source, target):
        return None
    return places[0]


def _proved(
    cache: _FuncCache, candidate: CandidateRewrite, layouts: Layouts
) -> Certificate | Refusal:
    """The proof of a candidate: stage by stage, else of the whole PrimFunc."""
    first = ""
    if candidate.correspondence is not None:
        proof = prove_stages(cache.func, candidate.func, candidate.correspondence, cache.standard)
        if isinstance(proof, Certificate):
            return proof
        first = f"{proof.reason}; "
    if isinstance(cache.lifted, Refusal):
        return Refusal(first + cache.lifted.reason)
    proof = prove_moved(cache.lifted, candidate.func, layouts)
    return proof if isinstance(proof, Certificate) else Refusal(first + proof.reason)


def _candidates(
    cache: _FuncCache, layouts: Layouts, loop_order: LoopOrder
) -> Iterator[CandidateRewrite | Refusal]:
    """The candidates to try, best first; a refusal where one cannot be written."""
    if any(_strided(p) for p, x in zip(items(cache.func.params), layouts, strict=True)
           if x is not None and not x.is_identity):  # fmt: skip
        yield Refusal("a buffer that changes its layout has strides or an offset")
        return
    orders: tuple[LoopOrder, ...] = ("tiled", "layout", "given")
    for order in orders[orders.index(loop_order) :]:
        try:
            func, read = cache.inlined
            if func is not cache.func and order != "given":
                yield write_candidate(func, layouts, order, read)
            yield write_candidate(cache.func, layouts, order, cache.standard)
        except (Unmovable, Opaque, Unsupported, *TVM_RAISES) as error:
            yield _refusal(error)
            break
    try:
        yield CandidateRewrite(substituted(cache.func, layouts))
    except (Unmovable, Opaque, Unsupported, *TVM_RAISES) as error:
        yield _refusal(error)


def _strided(param: Any) -> bool:
    """Whether a buffer has strides, or an offset other than 0."""
    offset, kind = param.ty.elem_offset, type(param.ty.elem_offset).__name__
    return bool(len(param.ty.strides)) or not (
        kind == "Var" or (kind == "IntImm" and not int(offset))
    )


def _with_attributes(new: Any, func: Any) -> Any:
    """The new PrimFunc with the attributes of the old one that still hold."""
    attrs = func.attrs or {}
    for key in (new.attrs or {}).keys():
        new = new.without_attr(key)
    for key in attrs.keys():
        if not str(key).startswith("opinfo."):
            new = new.with_attr(key, attrs[key])
    return new
