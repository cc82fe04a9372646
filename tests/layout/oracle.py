"""Does a rewritten PrimFunc compute the same? Both are compiled and run.

Padding of operands holds what their layouts say, or NaN (a large integer) where they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm.tirx.buffer import is_buffer_var

from opinfo.layout.model.layout import Layout

from ..relaid.check import Array, execute, outputs_of, value

TOLERANCE = {"float16": 2e-2, "float32": 1e-4}


class Wrong(AssertionError):
    """The rewritten PrimFunc computes something else."""


def check(
    func: Any,
    new: Any,
    layouts: Sequence[Layout | None],
    sizes: Mapping[str, int] = {},
    positive: Sequence[int] = (),
    seed: int = 0,
) -> None:
    """Raises `Wrong`."""
    rng = np.random.default_rng(seed)
    assert all(map(is_buffer_var, func.params)), "a parameter is a size"
    shapes = [tuple(int(value(e, {}, sizes)) for e in p.ty.shape) for p in func.params]
    dtypes = [str(p.ty.dtype) for p in func.params]
    own = [x or Layout.identity(len(s)) for x, s in zip(layouts, shapes, strict=True)]
    count = len(shapes) - outputs_of(func)
    arrays = [random(rng, shapes[k], dtypes[k], k in positive) for k in range(count)]
    physical = [spread(own[k], a) for k, a in enumerate(arrays)]
    wide = [tuple(int(value(e, {}, sizes)) for e in p.ty.shape) for p in new.params]
    for k, (layout, shape) in enumerate(zip(own, shapes, strict=True)):
        if wide[k] != layout.physical(shape):
            raise Wrong(f"parameter {k} has the shape {wide[k]} in {layout}")
    want = execute(func, arrays, list(zip(shapes, dtypes, strict=True))[count:])
    got = execute(new, physical, list(zip(wide, dtypes, strict=True))[count:])
    for k, (x, y) in enumerate(zip(want, got, strict=True)):
        compare(own[count + k], x, y, k)


def random(rng: Any, shape: tuple[int, ...], dtype: str, positive: bool) -> Array:
    if "float" in dtype:
        return np.asarray(rng.uniform(0.5 if positive else -2, 2, shape).astype(dtype))
    return np.asarray(rng.integers(0, 2, shape).astype(dtype))


def spread(layout: Layout, a: Array) -> Array:
    """The physical array, with what nobody may read where the layout promises nothing."""
    places = Layout(layout.dims, 0).move(np.ones(a.shape, "int8"))
    out = layout.move(a)
    if layout.pad_value is None:
        out[places == 0] = np.nan if "float" in str(a.dtype) else 77
    return out


def compare(layout: Layout, want: Array, got: Array, k: int) -> None:
    places = layout.forward(np.indices(want.shape, sparse=True), want.shape)
    mine = got[tuple(np.broadcast_arrays(*places)) if places else ()]
    same(want, mine, k, "")
    if layout.pad_value is not None:
        padding = Layout(layout.dims, 0).move(np.ones(want.shape, "int8")) == 0
        same(np.full_like(got[padding], layout.pad_value), got[padding], k, " in its padding")


def same(want: Array, got: Array, k: int, where: str) -> None:
    tolerance = TOLERANCE.get(str(want.dtype), 0.0)
    x, y = want.astype("float64"), got.astype("float64")
    if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = float(np.nanmax(np.abs(x - y))) if x.size else 0.0
        raise Wrong(f"result {k} differs{where} by {worst}")
