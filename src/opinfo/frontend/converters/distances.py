"""Norms, and distances between rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from ..formulas.float_extrema import extremum_of_floats
from .nodes.arguments import Converter, arguments, positive

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


def _vector_norm(importer: Any, node: Any) -> Any:
    """Convert linalg_vector_norm along some axes, or all, of the dtype that is asked for."""
    args, emit = arguments(importer, node), importer.block_builder.emit
    x, dtype, p = args["self"], importer.computed(node), float(args["ord"])
    x = x if str(x.ty.dtype) == dtype else emit(op.astype(x, dtype))
    dims = [args["dim"]] if isinstance(args["dim"], int) else args["dim"] or range(x.ty.ndim)
    axes, keep = [positive(axis, x.ty.ndim) for axis in dims], args["keepdim"]
    if axes and math.isinf(p):
        return importer.block_builder.emit_te(
            extremum_of_floats, emit(op.abs(x)), axes, keep, p > 0
        )
    return _norm(emit, x, 1.0 if math.isinf(p) else p, axes, keep)


def _norm(emit: Any, x: Any, p: float, axes: Sequence[int] = (-1,), keep: bool = False) -> Any:
    """Return the norms along axes, by default the last one."""
    size, along = emit(op.abs(x)), list(axes)
    if p == 0:
        differs = emit(op.not_equal(x, relax.const(0, x.ty.dtype)))
        return emit(op.sum(emit(op.astype(differs, str(x.ty.dtype))), along, keep))
    if p == float("inf"):
        return emit(op.max(size, along, keep))
    if p == 1:
        return emit(op.sum(size, along, keep))
    if p == 2:
        return emit(op.sqrt(emit(op.sum(emit(op.multiply(x, x)), along, keep))))
    powers = emit(op.power(size, relax.const(p, x.ty.dtype)))
    return emit(op.power(emit(op.sum(powers, along, keep)), relax.const(1 / p, x.ty.dtype)))


CONVERTERS: Mapping[str, Converter] = {
    "_cdist_forward.default": _between, "_pdist_forward.default": _among,
    "linalg_vector_norm.default": _vector_norm,
}  # fmt: skip
