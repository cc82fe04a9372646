"""Views of memory by strides, as `stft` and the windows of Longformer read their operand.

TVM's importer reshapes the operand, whatever order its elements have in memory, and does not check
symbolic strides: `x.as_strided((4, n), (1, 4))` was a reshape instead of a transposition.

Before: ``as_strided(x, (n, 4), (2, 1), 3)`` of a contiguous `x`; after: element (i, j) is the one
at ``3 + 2 * i + j`` of ``reshape(x, [-1])``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import tvm
from torch.fx.experimental.symbolic_shapes import statically_known_true
from tvm import relax, te

from .nodes.arguments import Converter, arguments


def _as_strided(importer: Any, node: Any) -> Any:
    """Convert as_strided of a contiguous operand, all of whose elements are inside of it.

    Raises:
        NotImplementedError: The operand is not contiguous, or elements may be outside.
    """
    args, value = arguments(importer, node), node.args[0].meta["val"]
    if not _is_contiguous(value):
        raise NotImplementedError("it reads the memory of a view, whose order its operand does not "
                                  "have; call contiguous() on the operand")  # fmt: skip
    sizes, strides, x = importer._sizes(node), list(args["stride"]), args["self"]
    offset = args["storage_offset"] or 0
    flat = importer.block_builder.emit(relax.op.reshape(x, [-1]))
    last = offset + sum((size - 1) * by for size, by in zip(sizes, strides, strict=True))
    analyzer = tvm.sym.Analyzer()
    if not analyzer.can_prove(flat.ty.shape[0] - last > 0):
        raise NotImplementedError(f"it reads up to element {last}, and the operand may end before; "
                                  "call contiguous() on the operand, or use unfold")  # fmt: skip
    return importer.block_builder.emit_te(
        _view, flat, sizes, strides, offset, primfunc_name_hint="as_strided"
    )


def _view(flat: Any, sizes: Any, strides: Any, offset: Any) -> Any:
    def element(*places: Any) -> Any:
        return flat(offset + sum(k * by for k, by in zip(places, strides, strict=True)))

    return te.compute(sizes, element, name="view")


def _is_contiguous(value: torch.Tensor) -> bool:
    """Return whether a tensor starts its memory, in the order of its elements."""
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if not (statically_known_true(size == 1) or statically_known_true(stride == expected)):
            return False
        expected = expected * size
    return bool(statically_known_true(value.storage_offset() == 0))


CONVERTERS: Mapping[str, Converter] = {"as_strided.default": _as_strided}
