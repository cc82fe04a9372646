"""Attention in float32 as one kernel of our own: o = softmax(scale q kᵀ + mask) v.

cuDNN has attention of halves only. As three regions, float32 takes four copies and has the scores
in memory. The kernel (attention32.cu) reads queries, keys and values where they lie, in slices and
moved axes, and does not round what it multiplies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np

from .....backend.region import Array, Region, Tensor
from .....patterns.pattern import Node, Pattern
from ....common.attention_pattern import MOST, AttentionRules
from ....common.attention_region import (
    MATMUL,
    SCALES,
    PlacedAttention,
    Source,
    is_attention,
    last_two,
    placed,
    traced,
)
from ....common.moved_axes import MOVES
from ....common.region_source import number
from ...libraries.dtypes import HALVES
from ...libraries.source import GpuFunction
from ...nvrtc.kernel_image import compiled
from ..sdpa_masks import corner, elements_of
from ..sdpa_region import COPIED

NAME = "attention_of_floats"
#: Elements of a head: a multiple of the first, at most the second.
ELEMENTS, LARGEST_HEAD = 16, 128
#: Elements that are read at once; axes of batches.
ALIGNED, BATCHES = 4, 3
#: Rows of a thread, of which eight have different ones; keys of a tile.
ROWS, THREADS, KEYS = (8, 4, 2), 8, 64
#: Blocks that keep a device busy, and the shared memory that two of them have on all devices.
BLOCKS, SHARED = 132, 96 << 10


@dataclass(frozen=True)
class FloatAttention:
    """A region as one launch.

    Attributes:
        sources: Queries, keys, values, then the mask if there is one.
        found: Where these lie, the result after values.
        scale: The factor of the scores.
        shift: Keys more than this after a query are hidden; None if none is.
    """

    sources: tuple[Source, ...]
    found: Any  # a PlacedAttention with numbers
    scale: float
    shift: int | None

    @property
    def head(self) -> int:
        return int(self.found.places[0].shape[-1])

    @property
    def batches(self) -> int:
        return math.prod(self.found.extents)

    @property
    def queries(self) -> int:
        return int(self.found.places[0].shape[-2])

    @property
    def keys(self) -> int:
        return int(self.found.places[1].shape[-2])

    @property
    def rows(self) -> int:
        """Rows of a thread: many, as these share what it reads, if there are blocks enough."""
        for rows in ROWS:
            if self.blocks(rows) >= BLOCKS and shared(self.head, rows) <= SHARED:
                return rows
        return 1 if self.queries <= THREADS else ROWS[-1]

    def blocks(self, rows: int) -> int:
        return self.batches * -(-self.queries // (THREADS * rows))


def shared(head: int, rows: int) -> int:
    """The bytes of shared memory of a block: queries, keys or weights, values."""
    queries, row = THREADS * rows, head + ALIGNED
    return 4 * (queries * row + max(KEYS * row, queries * (KEYS + ALIGNED)) + KEYS * row)


def reads(place: Any, across: int) -> bool:
    """Whether the kernel reads a tensor where it lies: the elements of a head side by side."""
    if place.step(across) != 1 or place.shape[across] % ELEMENTS or place.offset % ALIGNED:
        return False
    rows = -3 - across
    steps = [step for axis in place.axes[:-2] for _, step in axis]
    steps += [step for _, step in place.axes[rows]]
    return place.step(rows) is not None and all(step % ALIGNED == 0 for step in steps)


def whole(region: Region) -> str | None:
    """Why the kernel does not compute a region; None if it does."""
    found = attention(region)
    return found if isinstance(found, str) else None


def floats(node: Node) -> str | None:
    """All tensors are float32, and products are not of halves, for which there are tensor cores."""
    dtypes = {v.dtype for v in node.tensors}
    if dtypes != {"float32"}:
        return f"the dtypes are {', '.join(sorted(dtypes))}, expected float32"
    widened = node.info.name == MATMUL and any(_is_widened(node, k) for k in (0, 1))
    return "halves are multiplied, as float32" if widened else None


def _is_widened(node: Node, k: int) -> bool:
    """Whether an operand is moved and scaled halves."""
    producer = node.source(k)
    for _ in range(MOST):
        if producer is None or producer.info.name not in (*MOVES, *SCALES):
            return False
        value = producer.operand(0)
        if value is not None and value.dtype in HALVES:
            return True
        producer = producer.source(0)
    return False


RULES = AttentionRules(floats, tuple(m for m in MOVES if m != "relax.astype"), reads,
                       whole=whole)  # fmt: skip


def patterns() -> tuple[Pattern, ...]:
    return (RULES.pattern(NAME),)


def is_float(region: Region) -> bool:
    """Whether a region is a match of `patterns`."""
    return is_attention(region) and all(
        t.dtype == "float32" for t in (*region.inputs, region.result)
    )


def attention(region: Region) -> FloatAttention | str:
    """A region of `patterns` as one launch, or why there is none."""
    traced_region = traced(region)
    if traced_region is None or traced_region.values is None:
        return COPIED
    found = placed(traced_region, region)
    if found is None:
        return COPIED
    (queries, keys, values, result), terms = found.places[:4], found.places[4:]
    if not all(isinstance(size, int) for place in found.places for size in place.shape):
        return "its sizes are symbolic"
    keys = keys.permuted((*range(len(keys.axes) - 2), -1, -2))
    if not all(reads(place, -1) for place in (queries, keys, values)) or result.step(-1) != 1:
        return "elements of a head are not side by side, or not aligned to 16 bytes"
    ends = [place.shape[-1] for place in (queries, keys, values)]
    sizes = {size for size in ends if isinstance(size, int)}
    if len(sizes) > 1 or max(sizes) > LARGEST_HEAD:
        return f"a head has {', '.join(map(str, sizes))} elements, expected at most {LARGEST_HEAD}"
    if traced_region.values.factor != 1:
        return f"values are scaled by {traced_region.values.factor:g}"
    if len(found.extents) > BATCHES:
        return f"there are {len(found.extents)} axes of batches and heads"
    found = replace(found, places=(queries, keys, *found.places[2:]))
    sources = (traced_region.queries, traced_region.keys, traced_region.values)
    kept, shift = _terms(traced_region.terms, found, region)
    if len(kept) > 1:
        return "several terms are added to the scores"
    masks = tuple(traced_region.terms[k] for k in kept)
    found = replace(found, places=(*found.places[:4], *(terms[k] for k in kept)),
                    along=(*found.along[:4], *(found.along[4 + k] for k in kept)))  # fmt: skip
    return FloatAttention((*sources, *masks), found, traced_region.scale, shift)


def _terms(
    terms: Sequence[Source], found: PlacedAttention, region: Region
) -> tuple[list[int], int | None]:
    """The terms that are tensors, and how many keys after a query the others leave.

    A causal mask of finite numbers is a tensor beside another one: of a query whose other keys that
    one hides, the keys after it have the weight.
    """
    kept: list[int] = []
    shift: int | None = None
    finite: int | None = None
    for k, term in enumerate(terms):
        if term.tensor.source == "constant":
            array = elements_of(region.constants[term.tensor.index], term.place, found)
            if not array.any():
                continue
            if shift is None and (start := corner(array)):
                shift = 0 if start == "TOP_LEFT" else array.shape[-1] - array.shape[-2]
                finite = None if np.isneginf(array[array != 0]).all() else k
                continue
        kept.append(k)
    return (kept, shift) if finite is None or not kept else ([*kept, finite], None)


def body(frame: GpuFunction) -> tuple[list[str], list[str]]:
    """C++ that fills a ``FloatAttention``, and how the region rounds differently."""
    call = attention(frame.region)
    assert isinstance(call, FloatAttention)
    rows, found = call.rows, call.found
    tensors: list[Tensor] = [source.tensor for source in call.sources]
    tensors.insert(3, frame.region.result)
    kernel = image(call.head, rows, call.shift is not None, len(call.sources) > 3)
    missing = BATCHES - len(found.extents)
    extents = [1] * missing + list(found.extents)
    lines = ["FloatAttention a;", f"a.image = {frame.image(kernel)};",
             f"a.bytes = {shared(call.head, rows)};", f"a.blocks = {call.blocks(rows)};",
             f"a.arguments.scale = {number(call.scale)};",
             f"a.arguments.second = {extents[1]}, a.arguments.third = {extents[2]};",
             f"a.arguments.queries = {call.queries}, a.arguments.keys = {call.keys};",
             f"a.arguments.shift = {call.shift or 0};"]  # fmt: skip
    for name, tensor, place, along in zip(("q", "k", "v", "o", "mask"), tensors, found.places,
                                          found.along, strict=False):  # fmt: skip
        row, column = last_two(place)
        steps = [0] * missing + list(along)
        lines += [f"a.{name} = {frame.view(tensor)};", f"a.{name}_first = {place.offset};",
                  f"a.arguments.{name}_row = {row};"]  # fmt: skip
        lines += [f"a.arguments.{name}_batch[{k}] = {step};" for k, step in enumerate(steps)]
        if name == "mask":
            lines.append(f"a.arguments.mask_key = {column};")
    return [*lines, "return attention32(c, a);"], [ROUNDS]


ROUNDS = "queries are scaled before their products, sums of the softmax are in another order"


@functools.lru_cache(maxsize=32)
def image(head: int, rows: int, causal: bool, masked: bool) -> Array:
    """The compiled kernel, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: It does not compile.
    """
    values = {"D": head, "RM": rows, "CAUSAL": int(causal), "MASKED": int(masked)}
    defined = "".join(f"#define {name} {value}\n" for name, value in values.items())
    return np.frombuffer(
        compiled(defined + text("attention32.h") + text("attention32.cu")), "uint8"
    )


def text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
