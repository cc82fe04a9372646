"""Tensors whose diagonal is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import te, tirx

from ...checks.size_check import size_check
from ..nodes.arguments import Converter, arguments, positive
from ..nodes.declared_types import reshaped


def _diagonal_scatter(importer: Any, node: Any) -> Any:
    """Convert diagonal_scatter; the axis of the diagonal is the last one of the source."""
    args = arguments(importer, node)
    x, source, rank = args["self"], args["src"], args["self"].ty.ndim
    rows, columns = (positive(args[name], rank) for name in ("dim1", "dim2"))
    _check_source(importer, x, source, args["offset"], (rows, columns))
    return importer.block_builder.emit_te(
        _replaced,
        x,
        _of_simple_sizes(importer, source),
        args["offset"],
        rows,
        columns,
        primfunc_name_hint="diagonal_scatter",
    )


def _of_simple_sizes(importer: Any, value: Any) -> Any:
    """Return a tensor with sizes as TVM simplifies them later; FuseTIR compares their forms."""
    sizes = list(value.ty.shape)
    simple = [tvm.sym.Analyzer().simplify(size) for size in sizes]
    same = all(tvm_ffi.structural_equal(a, b) for a, b in zip(sizes, simple, strict=True))
    return value if same else reshaped(importer, value, simple)


def _check_source(importer: Any, x: Any, source: Any, offset: int, axes: tuple[int, int]) -> None:
    """Refuse a source that has not the sizes of the diagonal, or fail at run time."""
    sizes = list(x.ty.shape)
    height, width = (sizes[axis] for axis in axes)
    length = tirx.min(height + min(offset, 0), width - max(offset, 0))
    expected = [size for axis, size in enumerate(sizes) if axis not in axes]
    expected.append(tvm.sym.Analyzer().simplify(tirx.max(length, 0)))
    for got, size in zip(source.ty.shape, expected, strict=True):
        if importer._equal(got, size):
            continue
        if isinstance(got, tirx.IntImm) and isinstance(size, tirx.IntImm):
            sizes, wanted = ([int(e) if isinstance(e, tirx.IntImm) else e for e in extents]
                             for extents in (source.ty.shape, expected))  # fmt: skip
            raise NotImplementedError(f"its source has the sizes {sizes}, expected those of the "
                                      f"diagonal, {wanted}")  # fmt: skip
        value, ty = size_check(tirx.EQ(got, size))
        importer.block_builder.match_cast(value, ty)


def _replaced(x: Any, source: Any, offset: int, rows: int, columns: int) -> Any:
    def element(*at: Any) -> Any:
        others = [k for axis, k in enumerate(at) if axis not in (rows, columns)]
        place = at[rows] if offset >= 0 else at[columns]
        is_inside = tirx.EQ(at[rows] + offset, at[columns])
        return tirx.if_then_else(is_inside, source(*others, place), x(*at))

    return te.compute(x.shape, element, name="diagonal_scatter")


CONVERTERS: Mapping[str, Converter] = {"diagonal_scatter.default": _diagonal_scatter}
