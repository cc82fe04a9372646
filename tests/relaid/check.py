"""Does an answer compute what the PrimFunc computes? Both are compiled and run.

The operator is built from the name and the attributes over logical buffers and legalised by TVM;
its operands are put into the PrimFunc's buffers, and its results read from them, by the index maps
that the answer claims. What the maps leave free in an input is NaN, or a large integer.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Constant, LayoutNormalised, OpInfo
from opinfo.analysis.proposal.call_op import call_op
from opinfo.testing.layout_strings import faults
from opinfo.testing.unoptimised import unoptimised

from ..common.run import run

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]
TOLERANCE = {"float16": 2e-2, "float32": 1e-3}


class Wrong(AssertionError):
    """The answer does not compute what the PrimFunc computes."""


def check(
    func: Any, info: LayoutNormalised, sizes: Sizes, positive: Sequence[int], seed: int = 0
) -> None:
    """Raises `Wrong`."""
    if wrong := faults(info):
        raise Wrong(f"layout strings: {wrong}")
    rng = np.random.default_rng(seed)
    buffers = [p for p in func.params if is_buffer_var(p)]
    assert len(buffers) == len(func.params), "a parameter is a size"
    shapes = [tuple(int(value(e, {}, sizes)) for e in p.ty.shape) for p in buffers]
    dtypes = [str(p.ty.dtype) for p in buffers]
    views = [view(info, k, shape, sizes) for k, shape in enumerate(shapes)]
    count = len(buffers) - outputs_of(func)
    logical = [_random(rng, views[k][0], dtypes[k], k in positive) for k in range(count)]
    physical = [_spread(a, views[k][1], shapes[k], dtypes[k]) for k, a in enumerate(logical)]
    got = execute(func, physical, list(zip(shapes, dtypes, strict=True))[count:])
    want = _operator(info.logical, logical, sizes)
    if len(want) != len(got):
        raise Wrong(f"{len(want)} results, the PrimFunc has {len(got)}")
    for k, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        shape, index = views[count + k]
        if theirs.shape != shape or str(theirs.dtype) != dtypes[count + k]:
            raise Wrong(f"result {k} is {theirs.dtype}{theirs.shape}, not {shape}")
        _same(mine[index], theirs, k)


def outputs_of(func: Any) -> int:
    """The number of buffers that the PrimFunc writes."""
    from opinfo.analysis.lifting.lift import lift

    return len(lift(func).outputs)


def _same(a: Array, b: Array, k: int) -> None:
    tolerance = TOLERANCE.get(str(b.dtype), 0.0)
    x, y = a.astype("float64"), b.astype("float64")
    if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
        worst = float(np.nanmax(np.abs(x - y))) if x.size else 0.0
        raise Wrong(f"result {k} differs by {worst}")


def _random(rng: Any, shape: tuple[int, ...], dtype: str, positive: bool) -> Array:
    if "float" in dtype:
        return np.asarray(rng.uniform(0.5 if positive else -2, 2, shape).astype(dtype))
    return np.asarray(rng.integers(-5, 6, shape).astype(dtype))


# ---------------------------------------------------------------------------- layouts


def view(
    info: LayoutNormalised | None, position: int, shape: tuple[int, ...], sizes: Sizes
) -> tuple[tuple[int, ...], Any]:
    """The logical shape, and the index into the physical buffer of every logical element."""
    layout = None if info is None else info.buffers[position]
    if layout is None:
        return shape, tuple(np.indices(shape)) if shape else ()
    logical = tuple(number(e, sizes) for e in layout.shape)
    axes = dict(zip(layout.index_map.initial_indices, np.indices(logical), strict=True))
    blank = np.zeros(logical, "int64")
    index = tuple(value(e, axes, sizes) + blank for e in layout.index_map.final_indices)
    for i, extent in zip(index, shape, strict=True):
        if i.size and (i.min() < 0 or i.max() >= extent):
            raise Wrong(f"the layout of parameter {position} leaves its buffer")
    flat = np.ravel_multi_index(index, shape) if index else np.zeros((), "int64")
    if np.unique(flat).size != flat.size:
        raise Wrong(f"the layout of parameter {position} puts two elements in one place")
    return logical, index


def _spread(a: Array, index: Any, shape: tuple[int, ...], dtype: str) -> Array:
    out = np.full(shape, np.nan if "float" in dtype else 77, dtype)
    out[index] = a
    return out


BINARY: dict[str, Any] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul,
    "FloorDiv": operator.floordiv, "FloorMod": operator.mod, "Min": min, "Max": max,
}  # fmt: skip


def value(e: Any, axes: Mapping[Any, Any], sizes: Sizes) -> Any:
    """An index expression at arrays of coordinates."""
    kind = type(e).__name__
    if isinstance(e, int):
        return e
    if kind == "IntImm":
        return int(e.value)
    if kind == "Var":
        return next(a for v, a in axes.items() if v.same_as(e)) if _in(e, axes) else sizes[e.name]
    if kind == "Cast":
        return value(e.value, axes, sizes)
    return BINARY[kind](value(e.a, axes, sizes), value(e.b, axes, sizes))


def _in(e: Any, axes: Mapping[Any, Any]) -> bool:
    return any(v.same_as(e) for v in axes)


def number(e: Any, sizes: Sizes) -> int:
    """An extent over sizes."""
    return int(value(e, {}, sizes))


# ---------------------------------------------------------------------------- running


def execute(
    func: Any, inputs: Sequence[Array], outputs: Sequence[tuple[tuple[int, ...], str]]
) -> list[Array]:
    """The outputs of a PrimFunc, compiled with LLVM."""
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    built = unoptimised(module)
    given = [tvm.runtime.tensor(np.ascontiguousarray(a)) for a in inputs]
    results = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in outputs]
    built["main"](*given, *results)
    return [r.numpy() for r in results]


def _operator(info: OpInfo, logical: Sequence[Array], sizes: Sizes) -> list[Array]:
    plain = {k: _plain(v, sizes) for k, v in info.attrs.items()}
    used = sorted({o for o in info.operands if isinstance(o, int)})
    given = {o: relax.Var(f"p{o}", _type(logical[o])) for o in used}
    operands = [
        relax.const(o.value, o.dtype) if isinstance(o, Constant) else given[o]
        for o in info.operands
    ]
    first = next((a for a in operands if hasattr(a.ty, "dtype")), None)
    dtype = str(first.ty.dtype) if first is not None else "float32"
    builder = relax.BlockBuilder()
    with builder.function("main", list(given.values())):
        call = builder.normalize(call_op(info.name, operands, plain, dtype))
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    return run(builder.get(), [logical[o] for o in used])


def _type(a: Array) -> Any:
    return relax.TensorType(a.shape, str(a.dtype))


def _plain(v: Any, sizes: Sizes) -> Any:
    if type(getattr(v, "ty", None)).__name__ == "PrimType" and not isinstance(v, tirx.FloatImm):
        return number(v, sizes)
    return type(v)(_plain(x, sizes) for x in v) if isinstance(v, (tuple, list)) else v
