"""Distances between rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax, tirx

from .nodes.arguments import Converter, arguments

op = relax.op


def _between(importer: Any, node: Any) -> Any:
    """Convert _cdist_forward: from each row of one tensor to each of another."""
    args = arguments(importer, node)
    emit, x, y = importer.block_builder.emit, args["x1"], args["x2"]
    difference = op.subtract(emit(op.expand_dims(x, -2)), emit(op.expand_dims(y, -3)))
    return _norm(emit, emit(difference), float(args["p"]))


def _among(importer: Any, node: Any) -> Any:
    """Convert _pdist_forward: between the rows of a tensor, each pair once."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    if not isinstance(x.ty.shape[0], tirx.IntImm):
        raise NotImplementedError("the number of rows is symbolic; use torch.cdist")
    pairs = np.triu_indices(int(x.ty.shape[0]), 1)
    left, right = (emit(op.take(x, relax.const(k, "int64"), 0)) for k in pairs)
    return _norm(emit, emit(op.subtract(left, right)), float(args["p"]))


def _norm(emit: Any, x: Any, p: float) -> Any:
    """Return the norms along the last axis."""
    size = emit(op.abs(x))
    if p == 0:
        differs = emit(op.not_equal(x, relax.const(0, x.ty.dtype)))
        return emit(op.sum(emit(op.astype(differs, str(x.ty.dtype))), -1))
    if p == float("inf"):
        return emit(op.max(size, -1))
    if p == 1:
        return emit(op.sum(size, -1))
    if p == 2:
        return emit(op.sqrt(emit(op.sum(emit(op.multiply(x, x)), -1))))
    powers = emit(op.power(size, relax.const(p, x.ty.dtype)))
    return emit(op.power(emit(op.sum(powers, -1)), relax.const(1 / p, x.ty.dtype)))


CONVERTERS: Mapping[str, Converter] = {
    "_cdist_forward.default": _between, "_pdist_forward.default": _among,
}  # fmt: skip
