"""Attention of halves by cuDNN's fused kernel: o = softmax(scale q kᵀ + mask) v.

    q, k, v: views of float16 or bfloat16 tensors, of (batch, heads, positions, elements)

A program may compute the scores, the softmax and the products in float32; the kernel keeps scores
and sums in float32 and rounds the weights to halves before the second product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....analysis.support.warn import warn
from ....layout.graph.relax_graph import Op
from ...backend.region import Array, Region, Tensor
from ...backend.region import region as region_of
from ...patterns.pattern import Node, Pattern, PatternStep, one
from ...patterns.symbolic_extents import (
    Extent,
    SymbolicExtent,
    divisible,
    extent_of,
    factors,
    with_quotients,
)
from ...patterns.value_bounds import bounds
from ..common.attention_pattern import MOST, AttentionRules, lands, narrows
from ..common.attention_region import (
    PlacedAttention,
    Source,
    batch,
    is_attention,
    last_two,
    placed,
    traced,
)
from ..common.moved_axes import MOVES, Strided, common_steps
from ..common.region_source import number, tensors
from .attention_object import begin_object
from .dtypes import HALVES
from .locate import CUDNN_FRONTEND
from .source import GpuFunction

ATTENTION = "relax.nn.attention"
#: Elements of a head; the kernel takes multiples of the second.
LARGEST_HEAD, ELEMENTS = 128, 8
#: With a mask, the kernel takes three times as long as products for many heads of few keys.
FEW_KEYS, MANY_HEADS = 64, 1024
#: Halves of 16 bytes: what the kernel reads at once.
ALIGNED = 8
#: Terms below it hide a key: a sum of products of halves of a head is far smaller.
HIDDEN = -1e30

COPIED = "the axes of a tensor are divided in a way that takes a copy"
#: Bytes of a constant mask.
LARGEST_MASK = 64 << 20

OWN_MASKS = "heads share keys, and have masks of their own"
INFINITE = "the mask may be infinite, and hide whole rows, whose softmax is not a number"

SYMBOLIC_MASK = "a mask is constant, and there are sizes that are known at run time"
UNKNOWN = "an extent does not follow from those of the region's tensors"
Four = tuple[Extent, Extent, Extent, Extent]


@dataclass(frozen=True)
class HeadsView:
    """A tensor by batch, heads, rows and columns: extents, steps, and the offset of the first."""

    extents: Four
    steps: Four
    offset: Extent = 0


@dataclass(frozen=True)
class Sdpa:
    """A region as one call of cuDNN's.

    Attributes:
        tensors: Queries, keys, values.
        views: The views of these, then of the result.
        scale: The factor of the scores.
        causal: The corner from which keys after a query are hidden, or empty.
        mask: The term that is added: a tensor of the call, or a constant of these elements.
        mask_view: Its view.
        summed: Whether the mask is the sum of several constants.
    """

    tensors: tuple[Tensor, Tensor, Tensor]
    views: tuple[HeadsView, HeadsView, HeadsView, HeadsView]
    scale: float
    causal: str = ""
    mask: Tensor | Array | None = None
    mask_view: HeadsView | None = None
    summed: bool = False

    @property
    def rounds(self) -> str:
        """How it rounds differently from its operators one by one."""
        dtype = self.tensors[0].dtype
        summed = f"constant terms are added first, rounded to {dtype}; " if self.summed else ""
        return (f"{summed}scores are float32, scaled there, their softmax is rounded to {dtype} "
                "before the second product")  # fmt: skip


def halves(node: Node) -> str | None:
    """All tensors are float32 or halves of one dtype."""
    dtypes = sorted({v.dtype for v in node.tensors} - {"float32"})
    if len(dtypes) > 1 or not set(dtypes) <= set(HALVES):
        return f"the dtypes are {', '.join(dtypes)}, expected float16 or bfloat16, and float32"
    return None


def reads(place: Strided, across: int) -> bool:
    """Whether the kernel reads a tensor where it lies: the elements of a head side by side."""
    elements = place.shape[across]
    if place.step(across) != 1 or not isinstance(elements, int) or elements % ELEMENTS:
        return False
    rows = -3 - across
    outer = [step for axis in place.axes[:-2] for _, step in axis]
    inner = [step for _, step in place.axes[rows]]
    aligned = all(divisible(s, ALIGNED) for s in (place.offset, *outer, *inner))
    return place.step(rows) is not None and aligned and 0 not in inner


def open_mask(node: Node) -> str | None:
    """A term that is computed at run time is a finite half: no row is masked as a whole.

    A constant is examined with the whole region.
    """
    if node.info.name != "relax.add" or node.others[0].constant:
        return None
    if bounds(node.others[0], node.infos) is None:
        return INFINITE
    return None


def whole(attention: Region) -> str | None:
    """Why the kernel does not compute a region, or not in less time; None if it does."""
    found = sdpa(attention)
    if isinstance(found, str):
        return found
    (batches, heads, _, _), keys = found.views[0].extents, found.views[1].extents[2]
    many = batches * heads
    if found.mask is not None and isinstance(keys, int) and isinstance(many, int):
        if keys <= FEW_KEYS and many >= MANY_HEADS:
            return f"{many} heads with a mask have {keys} keys each: products take less time"
    if (reason := missing()) is not None:
        return reason
    begin_object()
    return None


@functools.cache
def missing() -> str | None:
    """Why code for cuDNN's frontend cannot be built, with a warning; None if it can.

    It is asked once for a process, when a region would be one kernel.
    """
    reason = CUDNN_FRONTEND.missing()
    if reason is not None:
        warn(f"cudnn: attention of halves is not one kernel: {reason}")
    return reason


def usable(node: Node) -> str | None:
    """cuDNN's frontend is installed."""
    return missing()


RULES = AttentionRules(halves, MOVES, reads, open_mask, whole=whole, symbolic=True)


def patterns() -> tuple[Pattern, ...]:
    """Attention in halves, perhaps with products in float32 whose result is cast to halves."""
    moves = PatternStep(frozenset(("relax.reshape", "relax.permute_dims")), (halves, lands,
                        RULES.fits), 0, MOST)  # fmt: skip
    after = PatternStep(moves.names, (halves, lands, RULES.fits, rounded), 0, MOST)
    cast = one("relax.astype", halves, narrowed, RULES.fits)
    first = RULES.pattern("attention", after)
    at = len(first.steps) - 2
    second = first.steps[at]
    closed = PatternStep(second.names, (*second.conditions, rounded), takes=second.takes)
    return (
        Pattern("attention", *first.steps[:at], closed, after),
        RULES.pattern("attention_float32", moves, cast, after),
        Pattern(
            "attention_operator",
            one(ATTENTION, halves, RULES.known, usable, open_bias, alone, takes=widened),
            one("relax.astype", halves, narrowed),
        ),
    )


def open_bias(node: Node) -> str | None:
    """The bias of an operator, if it has one, hides no row as a whole; see `open_mask`."""
    bias = node.operand(3)
    if bias is None or bias.constant or bounds(bias, node.infos) is not None:
        return None
    return INFINITE


def widened(node: Node) -> list[Op]:
    """The casts of the operands of an operator to float32."""
    sources = (node.source(k) for k in range(len(node.info.operands)))
    return [n.op for n in sources
            if n is not None and n.info.name == "relax.astype" and not narrows(n)]  # fmt: skip


def alone(node: Node) -> str | None:
    ops = [*dict.fromkeys(widened(node)), node.op]
    return whole(region_of("", ops, node.infos).region)


def is_fused(region: Region) -> bool:
    """Whether a region is a match of `patterns`."""
    return is_attention(region) or region.find(ATTENTION) is not None


def rounded(node: Node) -> str | None:
    dtype = node.result.dtype
    return None if dtype in HALVES else f"the result is {dtype}, expected float16 or bfloat16"


def narrowed(node: Node) -> str | None:
    return None if narrows(node) else "it is not a cast of float32 to float16 or bfloat16"


def sdpa(region: Region) -> Sdpa | str:
    """A region of `patterns` as one call, or why there is none."""
    found = _operator(region) if region.find(ATTENTION) is not None else _products(region)
    if isinstance(found, str):
        return found
    views = (*found.views, *([] if found.mask_view is None else [found.mask_view]))
    sizes = [e for view in views for e in (*view.extents, *view.steps, view.offset)]
    known = known_extents(region)
    return UNKNOWN if any(factors(e, known) is None for e in sizes) else found


def known_extents(region: Region) -> list[tuple[SymbolicExtent, str]]:
    """The symbolic extents of a region's tensors, their quotients, and C++ of each."""
    return with_quotients([(extent_of(e), f"c.extents[{k}][{axis}]")
                           for k, t in enumerate(tensors(region))
                           for axis, e in enumerate(t.shape)])  # fmt: skip


def _products(region: Region) -> Sdpa | str:
    """The call for two products around a softmax."""
    attention = traced(region)
    if attention is None:
        return COPIED
    given, constants = _divided(attention.terms)
    found = placed(replace(attention, terms=given), region)
    if found is None or attention.values is None:
        return COPIED
    tensors = (attention.queries.tensor, attention.keys.tensor, attention.values.tensor)
    if (reason := _types(tensors, region)) is not None:
        return reason
    if attention.values.factor != 1 or not attention.scale > 0:
        return f"scores are scaled by {attention.scale:g}, values by {attention.values.factor:g}"
    transposed = found.places[1].permuted((*range(len(found.places[1].axes) - 2), -1, -2))
    found = PlacedAttention(
        (found.places[0], transposed, *found.places[2:]), found.extents, found.along
    )
    views = _views(found)
    if isinstance(views, str):
        return views
    return _masked(Sdpa(tensors, views, attention.scale), given, constants, found, region)


def _divided(terms: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """The terms that are known at run time, and the constant ones."""
    constants = [t for t in terms if t.tensor.source == "constant"]
    return [t for t in terms if t.tensor.source != "constant"], constants


def _operator(region: Region) -> Sdpa | str:
    """The call for an operator that is attention, over (batch, position, heads, elements)."""
    call = region.find(ATTENTION)
    assert call is not None
    given = [o for o in call.operands if isinstance(o, Tensor)]
    q, k, v, *bias = (region.calls[o.index].operands[0] if o.source == "call" else o for o in given)
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return "an operand is a literal"
    if (reason := _types((q, k, v), region)) is not None:
        return reason
    places = [Strided.plain(t.shape).permuted((0, 2, 1, 3)) for t in (q, k, v, call.result)]
    terms = [Source(b, Strided.plain(b.shape).broadcast((*places[0].shape[:3], k.shape[1])))
             for b in bias if isinstance(b, Tensor)]  # fmt: skip
    added, constants = _divided(terms)
    places += [t.place for t in added]
    common = common_steps([batch(p) for p in places])
    if common is None:
        return COPIED
    found = PlacedAttention(tuple(places), *common)
    views = _views(found)
    if isinstance(views, str):
        return views
    scale = call.attrs["scale"]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if scale <= 0:
        return f"scores are scaled by {scale:g}"
    corner = CORNERS[call.attrs["causal_mask"]]
    if corner == "BOTTOM_RIGHT" and _may_exceed(q.shape[1], k.shape[1]):
        return "the causal mask hides whole rows, whose softmax is not a number"
    made = _masked(Sdpa((q, k, v), views, scale), added, constants, found, region)
    if isinstance(made, str) or not corner:
        return made
    if made.causal or made.mask is not None:
        return "a causal mask and another one are added to the scores"
    return replace(made, causal=corner)


def _may_exceed(queries: Any, keys: Any) -> bool:
    """Whether there may be more queries than keys."""
    first, second = extent_of(queries), extent_of(keys)
    if isinstance(first, int) and isinstance(second, int):
        return first > second
    return first != second


#: The corner from which a causal mask starts, by the operator's attribute.
CORNERS = {None: "", "TopLeft": "TOP_LEFT", "BottomRight": "BOTTOM_RIGHT"}


def _types(tensors: Sequence[Tensor], region: Region) -> str | None:
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) != 1 or not dtypes <= set(HALVES):
        return (f"queries, keys, values are read as {', '.join(sorted(dtypes))}, expected halves, "
                "and heads in rows of a multiple of 16 bytes")  # fmt: skip
    if region.result.dtype not in (*dtypes, "float32"):
        return f"the result is {region.result.dtype}, the queries are {tensors[0].dtype}"
    if any(t.source == "constant" for t in tensors):
        return "queries, keys or values are constant"
    return None


def _views(found: PlacedAttention) -> tuple[HeadsView, HeadsView, HeadsView, HeadsView] | str:
    """Queries, keys, values and the result with the same axes of batches and heads."""
    places, extents, along = found.places[:4], list(found.extents), [list(s) for s in found.along]
    if not all(reads(place, -1) for place in places):
        return "elements of a head are not side by side, or not aligned to 16 bytes"
    largest = max(e for p in places if isinstance(e := p.shape[-1], int))
    if largest > LARGEST_HEAD:
        return f"a head has {largest} elements, expected at most {LARGEST_HEAD}"
    if places[1].shape[-2] == 1:
        return "there is one key"
    shared: Extent = 1
    if len(extents) == 3 and along[1][2] == along[2][2] == 0:  # keys that several heads share
        shared = extents.pop()
        for k in (0, 3):
            low = along[k].pop()
            if along[k][1] != shared * low:
                return "heads with the same keys do not lie side by side"
            along[k][1] = low
    if len(extents) > 2:
        return f"there are {len(extents)} axes of batches and heads"
    views = [_view(p, extents, s, shared if n in (0, 3) else 1)
             for n, (p, s) in enumerate(zip(places, along, strict=False))]  # fmt: skip
    if isinstance(wrong := next((v for v in views if isinstance(v, str)), None), str):
        return wrong
    first, second, third, result = (view for view in views if isinstance(view, HeadsView))
    if first.extents[:2] != result.extents[:2]:
        return "heads share queries"
    return first, second, third, result


def _view(
    place: Strided, extents: Sequence[Extent], along: Sequence[Extent], times: Extent
) -> HeadsView | str:
    missing = 2 - len(extents)
    outer: list[Extent] = [*[1] * missing, *extents]
    steps: list[Extent] = [*[0] * missing, *along]
    if outer[0] != 1 and steps[0] == 0:
        return "a tensor is shared by all of a batch"
    outer[1] = outer[1] * times
    if steps[1] == 0:
        outer[1] = 1
    shape = (outer[0], outer[1], *place.shape[-2:])
    full = [*steps[:2], *last_two(place)]
    for axis in (2, 1, 0):  # the step of a single element says nothing: let it be aligned
        if shape[axis] == 1:
            full[axis] = shape[axis + 1] * full[axis + 1]
    return HeadsView(_four(shape), _four(full), place.offset)


def _four(values: Sequence[Extent]) -> Four:
    a, b, c, d = values
    return a, b, c, d


def _masked(
    call: Sdpa, given: Sequence[Source], constants: Sequence[Source], found: PlacedAttention,
    region: Region,
) -> Sdpa | str:  # fmt: skip
    """The call with the terms of the scores: hidden keys, or a tensor that is added."""
    summed: list[Array] = []
    causal = ""
    for term in constants:
        data = region.constants[term.tensor.index]
        if not data.any():
            continue
        if not all(isinstance(e, int) for e in (*found.extents, *term.place.shape)):
            return SYMBOLIC_MASK
        array = elements_of(data, term.place, found)
        if not array.any():
            continue
        if not causal and (causal := corner(array)):
            continue
        summed.append(array)
    if len(given) + bool(summed) + bool(causal) > 1:
        return "several terms are added to the scores"
    if summed:
        return _with_constants(call, summed, found)
    if given:
        return _with_mask(call, given[0], found)
    return replace(call, causal=causal)


def elements_of(array: Array, place: Any, found: Any) -> Any:
    """A constant term by the axes of batches, rows and keys; repeated elements share memory.

    Extents and steps are numbers.
    """
    digits = [digit for axis in place.axes for digit in axis]
    flat = np.ascontiguousarray(array).reshape(-1)[place.offset :].astype("float32")
    shape, steps = [e for e, _ in digits], [4 * s for _, s in digits]
    stride: Any = np.lib.stride_tricks.as_strided
    whole = stride(flat, shape, steps, writeable=False)
    return whole.reshape(*found.extents, *place.shape[-2:])


def corner(array: Any) -> str:
    """The corner of a causal mask: 0 up to the diagonal from there, keys after it hidden."""
    rows, keys = array.shape[-2:]
    for name, shift in (("TOP_LEFT", 0), ("BOTTOM_RIGHT", keys - rows)):
        after = np.arange(keys)[None, :] > np.arange(rows)[:, None] + shift
        if shift >= 0 and (array[..., after] <= HIDDEN).all() and not array[..., ~after].any():
            return name
    return ""


def _with_mask(call: Sdpa, term: Source, found: PlacedAttention) -> Sdpa | str:
    """The call with a tensor that is known at run time; its place is the last one."""
    dtype, steps, place = call.tensors[0].dtype, list(found.along[-1]), found.places[-1]
    extents: list[Extent] = [1 if s == 0 else e for e, s in zip(found.extents, steps, strict=True)]
    if len(extents) > 2:  # heads share keys: those with the same keys are the third axis
        if steps[1:] != [0, 0]:
            return OWN_MASKS
        extents, steps = extents[:2], steps[:2]
    missing = 2 - len(extents)
    outer: list[Extent] = [*[1] * missing, *extents]
    rows, keys = place.shape[-2:]
    if term.tensor.dtype != dtype:
        return f"the mask is {term.tensor.dtype}, expected {dtype}"
    row, column = last_two(place)
    if column != 1:
        return "the mask has one element for all keys"
    full: list[Extent] = [*[0] * missing, *steps, row, 1]
    for axis in (1, 0):
        full[axis] = rows * keys if full[axis] == 0 else full[axis]
    view = HeadsView(_four((*outer, rows, keys)), _four(full), place.offset)
    return replace(call, mask=term.tensor, mask_view=view)


def _with_constants(call: Sdpa, terms: Sequence[Array], found: PlacedAttention) -> Sdpa | str:
    """The call with the sum of constants; axes along which it is the same have one element."""
    batches = len(found.extents)
    parts = [_narrowed(term, batches) for term in terms]
    outer = np.broadcast_shapes(*(p.shape for p in parts))[:batches]
    if batches > 2 and outer[1:] != (1, 1):
        return OWN_MASKS
    half = in_half(parts, call.tensors[0].dtype)
    if isinstance(half, str):
        return half
    if half.nbytes > LARGEST_MASK:
        return f"the mask has {half.nbytes >> 20} MiB, expected at most {LARGEST_MASK >> 20}"
    rows, keys = half.shape[-2:]
    outer = (1,) * (2 - batches) + outer[:2]
    half = np.ascontiguousarray(half.reshape(*outer, rows, keys))
    view = HeadsView(_four(half.shape), (outer[1] * rows * keys, rows * keys, keys, 1))
    return replace(call, mask=half, mask_view=view, summed=len(terms) > 1)


def _narrowed(array: Any, axes: int) -> Any:
    """An array with one element along those of the first axes along which all are equal."""
    for axis in range(axes):
        first = array.take([0], axis)
        if array.strides[axis] == 0 or np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    return array


def in_half(terms: Sequence[Any], dtype: str) -> Any:
    """A sum of constants in a half dtype, hidden keys as -inf; or why the results would differ.

    The terms must be exact in it. Their sum is rounded, as a program of halves rounds the scores
    after each.
    """
    import ml_dtypes

    with np.errstate(over="ignore", invalid="ignore"):
        array = sum(terms[1:], terms[0])
        hidden = array <= HIDDEN
        half = np.where(hidden, -np.inf, array).astype(getattr(ml_dtypes, dtype, dtype))
        seen = [t[t > HIDDEN] for t in terms]
        exact = all(np.array_equal(t.astype(half.dtype).astype("float32"), t) for t in seen)
    if hidden.all(-1).any() or np.isnan(array).any():
        return "the mask hides a whole row, whose softmax is not a number"
    return half if exact else f"the mask has numbers that are not exact in {dtype}"


#: Names in attention_plans.h of the corners from which masks start.
CAUSAL = {"TOP_LEFT": "kFromTopLeft", "BOTTOM_RIGHT": "kFromBottomRight"}


def body(frame: GpuFunction) -> tuple[list[str], list[str]]:
    """C++ that fills an ``Sdpa``, and how the region rounds differently."""
    call = sdpa(frame.region)
    assert isinstance(call, Sdpa)
    known = known_extents(frame.region)

    def cpp(operand: str, view: HeadsView) -> str:
        extents, steps = (", ".join(str(factors(e, known)) for e in four)
                          for four in (view.extents, view.steps))  # fmt: skip
        offset = factors(view.offset, known)
        return f"{{{operand}, {{{extents}}}, {{{steps}}}, {offset}}}"

    lines = ["Sdpa s;", f"s.scale = {number(call.scale)};"]
    if call.tensors[0].dtype == "bfloat16":
        lines.append("s.bfloat16 = true;")
    for name, tensor, view in zip("qkvo", (*call.tensors, frame.region.result), call.views,
                                  strict=True):  # fmt: skip
        lines.append(f"s.{name} = {cpp(frame.view(tensor), view)};")
    if call.mask_view is not None:
        operand = (frame.view(call.mask) if isinstance(call.mask, Tensor)
                   else frame.constant(np.asarray(call.mask)))  # fmt: skip
        lines.append(f"s.mask = {cpp(operand, call.mask_view)};")
    if call.causal:
        lines.append(f"s.causal = {CAUSAL[call.causal]};")
    return [*lines, "return attention(c, s);"], [call.rounds]
