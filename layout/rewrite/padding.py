"""What a block does where the element that it stores is padding.

It may store anything if the layout promises no pad value, but must not read outside its buffers. If
a pad value is promised, the block stays unchanged if it computes that value from its operands'
padding (relu of 0 is 0); else its stores are guarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis.blocks.blocks import Stage
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.tvm_compat import TensorLoad, source_of, sym
from ...analysis.terms.order import nonneg
from ...analysis.terms.term import Int
from ...analysis.terms.traversal import free, ints
from ..access.inner_layouts import Layouts
from ..model.extents import literal
from .nest import BlockNest


def harmless(
    stage: Stage, block_nest: BlockNest, layouts: Layouts, shapes: Sequence[Sequence[Int]]
) -> bool:
    """Whether the block may run on padding: each element that it reads is inside its buffer.

    ``shapes`` are the physical shapes of its reads.
    """
    reads = zip((block_nest.placed(a, layouts[a.buffer]) for a in stage.reads), shapes, strict=True)
    return all(_within(index, shape, block_nest) for index, shape in reads) and not _divides(
        stage.block
    )


def _within(index: Sequence[Int | None], shape: Sequence[Int], block_nest: BlockNest) -> bool:
    return all(
        poly is not None
        and (not _may_be_padding(poly, block_nest) or (nonneg(poly) and nonneg(extent - 1 - poly)))
        for poly, extent in zip(index, shape, strict=True)
    )


def _may_be_padding(poly: Int | None, block_nest: BlockNest) -> bool:
    """Whether an index over the new iterators may be in the padding."""
    return poly is None or not block_nest.padded.isdisjoint(free(poly))


def _divides(block: Any) -> bool:
    """Whether an integer is divided by a value that may be 0 in the padding."""
    divisions: list[Any] = []

    def visit(expr: Any) -> None:
        if "float" not in str(expr.ty.dtype) and type(expr.b).__name__ != "IntImm":
            divisions.append(expr)

    kinds = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    tvm_ffi.structural_walk(block.body, (kinds, visit))
    return bool(divisions)


def keeps_padding(stage: Stage, block_nest: BlockNest, layouts: Layouts) -> bool:
    """Whether a single store computes its pad value from those of its operands.

    One axis must be padded, in the same way in every operand.
    """
    store, write = stage.block.body, stage.writes[0]
    if stage.block.init is not None or type(store).__name__ != "BufferStore" or not stage.reads:
        return False

    def padded(indices: Sequence[Int | None], shape: Sequence[Int]) -> list[tuple[Any, Int]]:
        at = block_nest.at
        return [(index, extent) for index, extent in zip(indices, shape, strict=True)
                if index is None or _may_be_padding(ints(index, at), block_nest)]  # fmt: skip

    axes, pads = padded(write.indices, write.shape), NodeDict[float]()
    for read in stage.reads:
        layout = layouts[read.buffer]
        promised = layout.pad_value is not None and layout.padded(literal(read.shape))
        if not promised or len(axes) != 1 or padded(read.indices, read.shape) != axes:
            return False
        pads[read.buffer] = layout.pad_value or 0
    try:
        folded = tvm_ffi.structural_map(
            store.value,
            (TensorLoad, lambda expr: tirx.const(pads[source_of(expr)], str(expr.ty.dtype))),
        )
        folded = sym.Analyzer().simplify(folded)
    except ValueError:  # a literal that its type does not have, such as bool(-1)
        return False
    is_literal = type(folded).__name__ in ("IntImm", "FloatImm")
    return is_literal and repr(float(folded.value)) == repr(
        float(layouts[write.buffer].pad_value or 0)
    )


def guarded_store(code: Any, inside: Any, values: NodeDict[float]) -> Any:
    """The statement where ``inside`` holds; elsewhere, stores of the pad values."""

    def pad(store: Any) -> Any:
        return tirx.const(values[store.buffer], str(store.value.ty.dtype))

    if type(code).__name__ == "BufferStore":
        if tvm_ffi.structural_equal(code.value, pad(code)):
            return code
        value = tirx.if_then_else(inside, code.value, pad(code))
        return tirx.BufferStore(code.buffer, value, code.indices)
    stores: list[Any] = []
    tvm_ffi.structural_walk(code, (tirx.BufferStore, stores.append))
    others = [tirx.BufferStore(s.buffer, pad(s), s.indices) for s in stores]
    return tirx.IfThenElse(inside, code, others[0] if len(others) == 1 else tirx.SeqStmt(others))


def guarded_step(code: Any, inside: Any) -> Any:
    """The step of a reduction where ``inside`` holds; elsewhere, nothing."""
    if type(code).__name__ != "BufferStore":
        return tirx.IfThenElse(inside, code, None)
    before = tirx.BufferLoad(code.buffer, code.indices)
    value = tirx.if_then_else(inside, code.value, before)
    return tirx.BufferStore(code.buffer, value, code.indices)
