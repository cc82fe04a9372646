"""Attention of halves by cuDNN's fused kernel: o = softmax(scale q kᵀ + mask) v.

    q, k, v: views of float16 or bfloat16 tensors, of (batch, heads, positions, elements)

A program may compute the scores, the softmax and the products in float32; the kernel keeps scores
and sums in float32 and rounds the weights to halves before the second product.
"""

from __future__ import annotations

import functools

import numpy as np

from .....analysis.support.warn import warn
from .....layout.graph.relax_graph import Op
from ....backend.region import Array, Region, Tensor
from ....backend.region import region as region_of
from ....patterns.extents.symbolic_extents import factors
from ....patterns.pattern import Node, Pattern, PatternStep, one
from ....patterns.value_bounds import bounds
from ...common.attention_pattern import MOST, AttentionRules, lands, narrows
from ...common.attention_region import is_attention
from ...common.moved_axes import MOVES
from ...common.region_source import number
from ..libraries.dtypes import HALVES
from ..libraries.locate import CUDNN_FRONTEND
from ..libraries.source import GpuFunction
from .attention_object import begin_object
from .halves import halves_kernel
from .sdpa import HeadsView, Sdpa
from .sdpa_region import ATTENTION, known_extents, reads, sdpa

#: With a mask, cuDNN's kernel takes three times as long as products for many heads of few keys.
FEW_KEYS, MANY_HEADS = 64, 1024

INFINITE = "the mask may be infinite, and hide whole rows, whose softmax is not a number"


def halves(node: Node) -> str | None:
    """All tensors are float32 or halves of one dtype."""
    dtypes = sorted({v.dtype for v in node.tensors} - {"float32"})
    if len(dtypes) > 1 or not set(dtypes) <= set(HALVES):
        return f"the dtypes are {', '.join(dtypes)}, expected float16 or bfloat16, and float32"
    return None


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
    call = sdpa(attention)
    if isinstance(call, str):
        return call
    (batches, heads, _, _), keys = call.views[0].extents, call.views[1].extents[2]
    many = batches * heads
    if call.mask is not None and isinstance(keys, int) and isinstance(many, int):
        if keys <= FEW_KEYS and many >= MANY_HEADS and not _has_kernel(call):
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
    if (kernel := _kernel(call)) is not None:
        lines.append(f"s.kernel = {frame.image(kernel)};")
    return [*lines, "return attention(c, s);"], [call.rounds]


def _kernel(call: Sdpa) -> Array | None:
    """The kernel of our own that is tried beside cuDNN's, if there is one for this call."""
    if not _has_kernel(call):
        return None
    head = call.views[0].extents[3]
    assert isinstance(head, int)
    return halves_kernel.image(head, call.tensors[0].dtype, call.mask is not None)


def _has_kernel(call: Sdpa) -> bool:
    """Whether a kernel of our own is tried."""
    (batch, heads, queries, head), keys = call.views[0].extents, call.views[1].extents[2]
    sizes = (batch, heads, queries, head, keys)
    if not isinstance(head, int) or call.views[2].extents[3] != head:
        return False
    numbers = [e for e in sizes if isinstance(e, int)]
    if len(numbers) < len(sizes):
        return call.mask is None and halves_kernel.takes(head)
    tried = halves_kernel.is_tried(numbers[0] * numbers[1], numbers[2], numbers[4])
    return tried and halves_kernel.takes(head)
