"""The terms that are added to the scores of an attention: causal masks, constants, tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....backend.region import Array, Region
from ....patterns.extents.symbolic_extents import Extent
from ...common.attention_region import PlacedAttention, Source, last_two
from .sdpa import HeadsView, Sdpa, four

#: Terms below it hide a key: a sum of products of halves of a head is far smaller.
HIDDEN = -1e30
#: Bytes of a constant mask.
LARGEST_MASK = 64 << 20

OWN_MASKS = "heads share keys, and have masks of their own"
SYMBOLIC_MASK = "a mask is constant, and there are sizes that are known at run time"


def divided(terms: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """The terms that are known at run time, and the constant ones."""
    constants = [t for t in terms if t.tensor.source == "constant"]
    return [t for t in terms if t.tensor.source != "constant"], constants


def masked(
    call: Sdpa,
    input_terms: Sequence[Source],
    constants: Sequence[Source],
    placement: PlacedAttention,
    region: Region,
) -> Sdpa | str:
    """The call with the terms of the scores: hidden keys, or a tensor that is added."""
    summed: list[Array] = []
    causal = ""
    for term in constants:
        data = region.constants[term.tensor.index]
        if not data.any():
            continue
        if not all(isinstance(e, int) for e in (*placement.extents, *term.place.shape)):
            return SYMBOLIC_MASK
        array = elements_of(data, term.place, placement)
        if not array.any():
            continue
        if not causal and (causal := corner(array)):
            continue
        summed.append(array)
    if len(input_terms) + bool(summed) + bool(causal) > 1:
        return "several terms are added to the scores"
    if summed:
        return _with_constants(call, summed, placement)
    if input_terms:
        return _with_mask(call, input_terms[0], placement)
    return replace(call, causal=causal)


def elements_of(array: Array, place: Any, placement: Any) -> Any:
    """A constant term by the axes of batches, rows and keys; repeated elements share memory.

    Extents and steps are numbers.
    """
    digits = [digit for axis in place.axes for digit in axis]
    flat = np.ascontiguousarray(array).reshape(-1)[place.offset :].astype("float32")
    shape, steps = [e for e, _ in digits], [4 * s for _, s in digits]
    stride: Any = np.lib.stride_tricks.as_strided
    whole = stride(flat, shape, steps, writeable=False)
    return whole.reshape(*placement.extents, *place.shape[-2:])


def corner(array: Any) -> str:
    """The corner of a causal mask: 0 up to the diagonal from there, keys after it hidden."""
    rows, keys = array.shape[-2:]
    for name, shift in (("TOP_LEFT", 0), ("BOTTOM_RIGHT", keys - rows)):
        after = np.arange(keys)[None, :] > np.arange(rows)[:, None] + shift
        if shift >= 0 and (array[..., after] <= HIDDEN).all() and not array[..., ~after].any():
            return name
    return ""


def _with_mask(call: Sdpa, term: Source, placement: PlacedAttention) -> Sdpa | str:
    """The call with a tensor that is known at run time; its place is the last one."""
    dtype, steps, place = call.tensors[0].dtype, list(placement.along[-1]), placement.places[-1]
    extents: list[Extent] = [
        1 if s == 0 else e for e, s in zip(placement.extents, steps, strict=True)
    ]
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
    view = HeadsView(four((*outer, rows, keys)), four(full), place.offset)
    return replace(call, mask=term.tensor, mask_view=view)


def _with_constants(call: Sdpa, terms: Sequence[Array], placement: PlacedAttention) -> Sdpa | str:
    """The call with the sum of constants; axes along which it is the same have one element."""
    batches = len(placement.extents)
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
    view = HeadsView(four(half.shape), (outer[1] * rows * keys, rows * keys, keys, 1))
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
