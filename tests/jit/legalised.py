"""Symbolic PrimFuncs for tests: operators legalised over shapes with names in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, tirx

from ..common.prim_funcs import fused, prim_funcs

Shape = Sequence[int | str]


def module(build: Callable[..., Any], shapes: Sequence[Shape], dtypes: Sequence[str] = ()) -> Any:
    """A Relax function of tensors of these shapes; a name is a dimension, "2*n" twice it."""
    dims: dict[str, Any] = {}
    kinds = [*dtypes, *["float32"] * (len(shapes) - len(dtypes))]
    xs = [
        relax.Var(f"x{k}", relax.TensorType([_dim(e, dims) for e in shape], dtype))
        for k, (shape, dtype) in enumerate(zip(shapes, kinds, strict=True))
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", xs):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(build(*xs)))
        builder.emit_func_output(y)
    return builder.get()


def _dim(e: int | str, dims: dict[str, Any]) -> Any:
    if isinstance(e, int):
        return e
    if "*" in e:
        factor, name = e.split("*")
        return _dim(name, dims) * int(factor)
    if "+" in e:
        name, more = e.split("+")
        return _dim(name, dims) + int(more)
    return dims.setdefault(e, tirx.Var(e, "int64"))


def kernel(build: Callable[..., Any], shapes: Sequence[Shape], dtypes: Sequence[str] = ()) -> Any:
    """The one PrimFunc that an expression of operators is fused into."""
    (func,) = prim_funcs(fused(module(build, shapes, dtypes)))
    return func
