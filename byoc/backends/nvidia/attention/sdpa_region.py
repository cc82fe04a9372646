"""Regions of attention as calls of cuDNN's, or why they are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....backend.region import Region, Tensor
from ....patterns.extents.symbolic_extents import (
    Extent,
    SymbolicExtent,
    divisible,
    extent_of,
    factors,
    with_quotients,
)
from ...common.attention_region import PlacedAttention, Source, batch, last_two, placed, traced
from ...common.moved_axes import Strided, common_steps
from ...common.region_source import tensors
from ..libraries.dtypes import HALVES
from .sdpa import HeadsView, Sdpa, four
from .sdpa_masks import divided, masked

ATTENTION = "relax.nn.attention"
#: Elements of a head; the kernel takes multiples of the second.
LARGEST_HEAD, ELEMENTS = 128, 8
#: Halves of 16 bytes: what the kernel reads at once.
ALIGNED = 8

COPIED = "the axes of a tensor are divided in a way that takes a copy"
UNKNOWN = "an extent does not follow from those of the region's tensors"


def sdpa(region: Region) -> Sdpa | str:
    """A region of `patterns` as one call, or why there is none."""
    call = _operator(region) if region.find(ATTENTION) is not None else _products(region)
    if isinstance(call, str):
        return call
    views = (*call.views, *([] if call.mask_view is None else [call.mask_view]))
    sizes = [e for view in views for e in (*view.extents, *view.steps, view.offset)]
    known = known_extents(region)
    return UNKNOWN if any(factors(e, known) is None for e in sizes) else call


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
    input_terms, constants = divided(attention.terms)
    placement = placed(replace(attention, terms=input_terms), region)
    if placement is None or attention.values is None:
        return COPIED
    tensors = (attention.queries.tensor, attention.keys.tensor, attention.values.tensor)
    if (reason := _types(tensors, region)) is not None:
        return reason
    if attention.values.factor != 1 or not attention.scale > 0:
        return f"scores are scaled by {attention.scale:g}, values by {attention.values.factor:g}"
    transposed = placement.places[1].permuted((*range(len(placement.places[1].axes) - 2), -1, -2))
    placement = PlacedAttention(
        (placement.places[0], transposed, *placement.places[2:]), placement.extents, placement.along
    )
    views = _views(placement)
    if isinstance(views, str):
        return views
    return masked(Sdpa(tensors, views, attention.scale), input_terms, constants, placement, region)


def _operator(region: Region) -> Sdpa | str:
    """The call for an operator that is attention, over (batch, position, heads, elements)."""
    call = region.find(ATTENTION)
    assert call is not None
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    q, k, v, *bias = (
        region.calls[o.index].operands[0] if o.source == "call" else o for o in tensors
    )
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return "an operand is a literal"
    if (reason := _types((q, k, v), region)) is not None:
        return reason
    places = [Strided.plain(t.shape).permuted((0, 2, 1, 3)) for t in (q, k, v, call.result)]
    terms = [Source(b, Strided.plain(b.shape).broadcast((*places[0].shape[:3], k.shape[1])))
             for b in bias if isinstance(b, Tensor)]  # fmt: skip
    added, constants = divided(terms)
    places += [t.place for t in added]
    common = common_steps([batch(p) for p in places])
    if common is None:
        return COPIED
    placement = PlacedAttention(tuple(places), *common)
    views = _views(placement)
    if isinstance(views, str):
        return views
    scale = call.attrs["scale"]
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if scale <= 0:
        return f"scores are scaled by {scale:g}"
    corner = CORNERS[call.attrs["causal_mask"]]
    if corner == "BOTTOM_RIGHT" and _may_exceed(q.shape[1], k.shape[1]):
        return "the causal mask hides whole rows, whose softmax is not a number"
    masked_call = masked(Sdpa((q, k, v), views, scale), added, constants, placement, region)
    if isinstance(masked_call, str) or not corner:
        return masked_call
    if masked_call.causal or masked_call.mask is not None:
        return "a causal mask and another one are added to the scores"
    return replace(masked_call, causal=corner)


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


def _views(placement: PlacedAttention) -> tuple[HeadsView, HeadsView, HeadsView, HeadsView] | str:
    """Queries, keys, values and the result with the same axes of batches and heads."""
    places, extents, along = (
        placement.places[:4],
        list(placement.extents),
        [list(s) for s in placement.along],
    )
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
    return HeadsView(four(shape), four(full), place.offset)


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
