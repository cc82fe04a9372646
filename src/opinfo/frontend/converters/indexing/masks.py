"""Updates of elements that a mask chooses, without their number: each element is computed.

Before: ``x[mask] = 0``; after: ``where(mask, 0, x)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tvm import relax, tirx

from ..nodes.arguments import Converter, arguments
from ..nodes.assertions import assert_none
from ..sizes.data_symbols import new_size

op = relax.op


def is_mask(node: Any) -> bool:
    """Return whether an index is a tensor of truth values."""
    return node is not None and node.meta["val"].dtype in (torch.bool, torch.uint8)


def put_by_mask(importer: Any, node: Any) -> Any:
    """Convert ``x[:, mask] = values`` and ``x[:, mask] += values``.

    Raises:
        NotImplementedError: There are other indices, or as many values as the data chooses.
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
        values = _spread(importer, node, values, mask, behind)
    mask = emit(op.reshape(emit(op.astype(mask, "bool")), [*mask.ty.shape, *[1] * behind]))
    if args["accumulate"]:
        both = op.logical_or if str(x.ty.dtype) == "bool" else op.add
        values = emit(both(x, values))
    return emit(op.where(mask, values, x))


def _spread(importer: Any, node: Any, values: Any, mask: Any, behind: int) -> Any:
    """Return values with the axes of the mask in place of that of the chosen elements."""
    shape, emit = list(values.ty.shape), importer.block_builder.emit
    if len(shape) <= behind:
        return values
    at = len(shape) - behind - 1
    taken: list[Any] = [1] * mask.ty.ndim
    if not importer._equal(shape[at], 1):
        if not isinstance(shape[at], tirx.IntImm) or int(shape[at]) == 0:
            raise NotImplementedError(
                f"it writes {node.args[2]}, a value for each element that a mask chooses, so its "
                "shape depends on the data; compute values for all elements and use torch.where"
            )
        values = emit(op.take(values, _ranks(importer, mask, int(shape[at])), at))
        taken = list(mask.ty.shape)
    return emit(op.reshape(values, [*shape[:at], *taken, *shape[at + 1 :]]))


def _ranks(importer: Any, mask: Any, count: int) -> Any:
    """Return how many elements a mask chooses before each; a call fails if it chooses others."""
    emit = importer.block_builder.emit
    ranks, total = _counted(importer, mask)
    importer.assertions.append((emit(op.equal(total, relax.const(count, "int64"))),
                                f"a mask chooses another number of elements than {count}, the "
                                "number of values that it writes"))  # fmt: skip
    return emit(op.minimum(ranks, relax.const(count - 1, "int64")))


def _counted(importer: Any, mask: Any) -> tuple[Any, Any]:
    """Return how many elements a mask chooses before each, and in all."""
    emit = importer.block_builder.emit
    flat = emit(op.astype(emit(op.reshape(emit(op.astype(mask, "bool")), [-1])), "int64"))
    return emit(op.subtract(emit(op.cumsum(flat, 0)), flat)), emit(op.sum(flat))


def _where(importer: Any, node: Any) -> Any:
    """Convert where; the condition may be one of the values, which `operand_types` does not cast.

    Before: ``where(m, m, x)`` with a float32 `x`; after: ``where(m, astype(m, "float32"), x)``.
    """
    args, emit = arguments(importer, node), importer.block_builder.emit
    dtype = importer._convert_data_type(node.meta["val"].dtype)
    values = [v if str(v.ty.dtype) == dtype else emit(op.astype(v, dtype))
              for v in (args["self"], args["other"])]  # fmt: skip
    return emit(op.where(args["condition"], *values))


def _masked_scatter(importer: Any, node: Any) -> Any:
    """Convert masked_scatter: the k-th chosen element becomes the k-th of the source.

    A call fails where the mask chooses more elements than the source has.
    """
    args = arguments(importer, node)
    emit, x, shape = importer.block_builder.emit, args["self"], importer._sizes(node)
    mask = emit(op.broadcast_to(emit(op.astype(args["mask"], "bool")), shape))
    source = emit(op.reshape(args["source"], [-1]))
    ranks, total = _counted(importer, mask)
    size = importer._number(source.ty.shape[0], "int64")
    enough = emit(op.less_equal(total, size))
    message = "a mask chooses more elements than masked_scatter's source has"
    importer.assertions.append((enough, message))
    last = emit(op.subtract(size, relax.const(1, "int64")))
    taken = emit(op.take(source, emit(op.minimum(ranks, last)), 0))
    return emit(op.where(mask, emit(op.reshape(taken, shape)), x))


def _repeated(importer: Any, node: Any) -> Any:
    """Convert repeat_interleave: for each place, the repeats that end before it."""
    args = arguments(importer, node)
    repeats, size = args["repeats"], args["output_size"]
    emit = importer.block_builder.emit
    total = emit(op.sum(emit(op.astype(repeats, "int64"))))
    if size is None:
        vector = emit(op.reshape(total, [1]))
        size = new_size(importer, vector, node.meta["val"].shape[0], "repeats")
    message = f"the repeats are not {size} in all, or one is below 0"
    importer.assertions.append((emit(op.equal(total, importer._number(size, "int64"))), message))
    assert_none(importer, emit(op.less(repeats, relax.const(0, repeats.ty.dtype))), message)
    ends = emit(op.cumsum(emit(op.astype(repeats, "int64")), 0))
    places = emit(op.expand_dims(emit(op.arange(0, size, 1, "int64")), 1))
    before = emit(op.sum(emit(op.astype(emit(op.less_equal(ends, places)), "int64")), [1]))
    return emit(op.minimum(before, importer._number(repeats.ty.shape[0] - 1, "int64")))


def _depends_on_data(importer: Any, node: Any) -> Any:
    raise NotImplementedError("the shape of its result depends on the data; compute all elements "
                              "and use torch.where, or a fixed number of them by topk")  # fmt: skip


_SIZED_BY_DATA = ("_unique2.default", "unique_dim.default", "unique_consecutive.default",
                  "bincount.default")  # fmt: skip
CONVERTERS: Mapping[str, Converter] = {
    "masked_scatter.default": _masked_scatter,
    "where.self": _where,
    "repeat_interleave.Tensor": _repeated,
    **dict.fromkeys(_SIZED_BY_DATA, _depends_on_data),
}
