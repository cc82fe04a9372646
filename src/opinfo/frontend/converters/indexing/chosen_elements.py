"""Elements that a mask chooses, whose number is a symbol: nonzero, masked_select, ``x[mask]``.

Before: ``x[mask]``; after: ``take(x, positions, 0)`` with the positions (n,) of a kernel, for
``n = sum(mask)``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any

from tvm import relax

from ...formulas.chosen_positions import chosen_positions
from ..nodes.arguments import Converter, arguments
from ..sizes.data_symbols import new_size

op = relax.op


def positions(importer: Any, mask: Any, declared: Any) -> Any:
    """Return where a tensor is not 0, counted over all of its axes.

    Args:
        importer: The importer.
        mask: The tensor.
        declared: The program's symbol for how many elements that are.

    Raises:
        NotImplementedError: The number has no symbol.
    """
    if not hasattr(declared, "node") or not declared.node.expr.is_Symbol:
        raise NotImplementedError(f"it chooses {declared} elements, a number that depends on the "
                                  "data, expected one symbol")  # fmt: skip
    builder, emit = importer.block_builder, importer.block_builder.emit
    flat = emit(op.reshape(emit(op.astype(mask, "bool")), [-1]))
    known = importer._symbols.get(str(declared.node.expr))
    if known is None:
        total = emit(op.sum(emit(op.astype(flat, "int64")), keepdims=True))
        known = new_size(importer, total, declared, "chosen")
    both = builder.emit_te(chosen_positions, flat, known, primfunc_name_hint="chosen_positions")
    return emit(relax.TupleGetItem(both, 0))


def taken_by_mask(importer: Any, node: Any, x: Any, mask: Any, place: int) -> Any:
    """Return ``x[:, mask]`` for a mask of the axes of `x` from `place` on."""
    emit, shape = importer.block_builder.emit, list(x.ty.shape)
    behind = place + mask.ty.ndim
    whole = functools.reduce(operator.mul, shape[place:behind], 1)
    at = positions(importer, mask, node.meta["val"].shape[place])
    flat = emit(op.reshape(x, [*shape[:place], whole, *shape[behind:]]))
    return emit(op.take(flat, at, place))


def _masked_select(importer: Any, node: Any) -> Any:
    args, emit = arguments(importer, node), importer.block_builder.emit
    shapes = [list(args[name].ty.shape) for name in ("self", "mask")]
    rank = max(map(len, shapes))
    left, right = ([1] * (rank - len(shape)) + shape for shape in shapes)
    shape = [b if importer._equal(a, 1) else a for a, b in zip(left, right, strict=True)]
    x, mask = (emit(op.broadcast_to(args[name], shape)) for name in ("self", "mask"))
    return taken_by_mask(importer, node, x, mask, 0)


def _nonzero(importer: Any, node: Any) -> Any:
    """Convert nonzero: positions as an index for each axis."""
    x, emit = arguments(importer, node)["self"], importer.block_builder.emit
    if not x.ty.ndim:
        raise NotImplementedError("it has no axes, expected a vector; reshape it")
    if str(x.ty.dtype) != "bool":
        zero = relax.const(0, str(x.ty.dtype))
        x = emit(op.logical_not(emit(op.equal(x, zero))))  # TVM's not_equal is false for NaN
    left = positions(importer, x, node.meta["val"].shape[0])
    columns = []
    for extent in reversed(list(x.ty.shape)[1:]):
        size = importer._number(extent, "int64")
        columns.append(emit(op.floor_mod(left, size)))
        left = emit(op.floor_divide(left, size))
    return emit(op.stack([left, *reversed(columns)], axis=1))


CONVERTERS: Mapping[str, Converter] = {
    "nonzero.default": _nonzero, "masked_select.default": _masked_select,
}  # fmt: skip
