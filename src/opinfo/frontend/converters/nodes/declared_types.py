"""The results of converters in the dtypes and shapes that a program declares for its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import tvm
from tvm import relax


def as_declared(importer: Any, result: Any, declared: Any) -> Any:
    """Return a result in the declared dtypes; raises `ValueError` for another shape."""
    if isinstance(declared, torch.Tensor):
        return _tensor(importer, result, declared)
    if not isinstance(declared, (tuple, list)):
        return result
    parts = parts_of(importer, result, len(declared))
    return [None if part is None or value is None else _tensor(importer, part, value)
            for part, value in zip(parts, declared, strict=True)]  # fmt: skip


def parts_of(importer: Any, result: Any, count: int) -> list[Any]:
    """Return the parts of a result; TVM computes only the first part of some operators."""
    if isinstance(result, (list, tuple)):
        parts = list(result)
    elif isinstance(result.ty, relax.TupleType):
        emit = importer.block_builder.emit
        parts = [emit(relax.TupleGetItem(result, k)) for k in range(count)]
    else:
        parts = [result]
    return parts + [None] * (count - len(parts))


def reshaped(importer: Any, value: Any, shape: Sequence[Any]) -> Any:
    """Return a value in another shape."""
    return importer.block_builder.emit(relax.op.reshape(value, relax.ShapeExpr(shape)))


def in_declared_shapes(importer: Any, result: Any, declared: Any) -> Any:
    """Return results along an axis of vectors in the declared shapes."""
    if isinstance(declared, torch.Tensor):
        return reshaped(importer, result, importer._shape(declared))
    parts = parts_of(importer, result, len(declared))
    return [None if part is None else reshaped(importer, part, importer._shape(x))
            for part, x in zip(parts, declared, strict=True)]  # fmt: skip


def typed(importer: Any, value: Any, declared: torch.Tensor) -> Any:
    """Return a tensor in the declared dtype."""
    same = str(value.ty.dtype) == importer._convert_data_type(declared.dtype)
    return value if same else importer._astype(value, declared.dtype)


def _tensor(importer: Any, value: Any, declared: torch.Tensor) -> Any:
    if not isinstance(value, relax.Expr):
        return value
    value = typed(importer, value, declared)
    shape = value.ty.shape
    if value.ty.ndim != declared.ndim or not _fits(shape, declared.shape):
        raise ValueError(f"the converter's result has the shape {shape}, expected "
                         f"{tuple(declared.shape)} as in the program")  # fmt: skip
    return value


def _fits(shape: Any, declared: Any) -> bool:
    """Return whether the static extents of two shapes are equal."""
    if shape is None:
        return True
    pairs = zip(shape, declared, strict=True)
    return all(
        not isinstance(extent, int) or int(dim.value) == extent
        for dim, extent in pairs
        if isinstance(dim, tvm.tirx.IntImm)
    )
