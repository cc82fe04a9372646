"""Updates of elements that a mask chooses, without their number: each element is computed.

Before: ``x[mask] = 0``; after: ``where(mask, 0, x)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tvm import relax

from ..nodes.arguments import Converter, arguments

op = relax.op


def is_mask(node: Any) -> bool:
    """Return whether an index is a tensor of truth values."""
    return node is not None and node.meta["val"].dtype in (torch.bool, torch.uint8)


def put_by_mask(importer: Any, node: Any) -> Any:
    """Convert ``x[:, mask] = values`` and ``x[:, mask] += values``.

    Raises:
        NotImplementedError: There are other indices, or a value for each chosen element.
    """
    args = arguments(importer, node)
    x, emit = args["self"], importer.block_builder.emit
    places = [k for k, index in enumerate(args["indices"]) if index is not None]
    if len(places) != 1:
        raise NotImplementedError("it writes where a mask and other indices say; use torch.where")
    place = places[0]
    mask, rank = args["indices"][place], x.ty.ndim
    behind = rank - place - mask.ty.ndim
    values = args["values"]
    if node.args[2] not in importer.chosen:
        values = _spread(importer, node, values, mask.ty.ndim, behind)
    mask = emit(op.reshape(emit(op.astype(mask, "bool")), [*mask.ty.shape, *[1] * behind]))
    if args["accumulate"]:
        values = emit(op.add(x, values))
    return emit(op.where(mask, values, x))


def _spread(importer: Any, node: Any, values: Any, taken: int, behind: int) -> Any:
    """Return values with axes of size 1 for those of the mask, in place of the chosen elements."""
    shape = list(values.ty.shape)
    if len(shape) <= behind:
        return values
    at = len(shape) - behind - 1
    if not importer._equal(shape[at], 1):
        raise NotImplementedError(
            f"it writes {node.args[2]}, a value for each element that a mask chooses, so its shape "
            "depends on the data; compute values for all elements and use torch.where"
        )
    widened = [*shape[:at], *[1] * taken, *shape[at + 1 :]]
    return importer.block_builder.emit(op.reshape(values, widened))


def _masked_scatter(importer: Any, node: Any) -> Any:
    """Convert masked_scatter: the k-th chosen element becomes the k-th of the source."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    shape = importer._sizes(node)
    mask = emit(op.broadcast_to(emit(op.astype(args["mask"], "bool")), shape))
    flat = emit(op.astype(emit(op.reshape(mask, [-1])), "int64"))
    count = emit(op.cumsum(flat, 0))
    zero, one = relax.const(0, "int64"), relax.const(1, "int64")
    at = emit(op.where(emit(op.reshape(mask, [-1])), emit(op.subtract(count, one)), zero))
    taken = emit(op.take(emit(op.reshape(args["source"], [-1])), at, 0))
    return emit(op.where(mask, emit(op.reshape(taken, shape)), x))


def _depends_on_data(importer: Any, node: Any) -> Any:
    raise NotImplementedError("the shape of its result depends on the data; compute all elements "
                              "and use torch.where, or a fixed number of them by topk")  # fmt: skip


_SIZED_BY_DATA = ("nonzero.default", "masked_select.default", "_unique2.default",
                  "unique_dim.default", "unique_consecutive.default", "bincount.default",
                  "repeat_interleave.Tensor")  # fmt: skip
CONVERTERS: Mapping[str, Converter] = {
    "masked_scatter.default": _masked_scatter,
    **dict.fromkeys(_SIZED_BY_DATA, _depends_on_data),
}
