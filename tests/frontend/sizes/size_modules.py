"""Functions of one operator whose operands have numbers or symbols as sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, tirx

Build = Callable[..., Any]
F, INT = "float32", "int64"
N, K = (tirx.Var(name, "int64") for name in "nk")


def module(build: Build, *types: Any) -> Any:
    """A function of tensors, given as shapes of float32, or as shapes and dtypes."""
    builder = relax.BlockBuilder()
    typed = [t if t and isinstance(t[0], tuple) else (t, F) for t in types]
    params = [relax.Var(f"x{k}", relax.TensorType(*t)) for k, t in enumerate(typed)]
    with builder.function("main", params):
        with builder.dataflow():
            value = build(*params)
            out = builder.emit(value)
            if isinstance(out.ty, relax.TupleType):
                out = builder.emit(relax.TupleGetItem(out, 0))
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    return builder.get()


def emitted(value: Any) -> Any:
    """Bind the operands, too."""
    builder = relax.BlockBuilder.current()
    if isinstance(value, relax.Call) and any(isinstance(a, relax.Call) for a in value.args):
        return relax.Call(value.op, [*map(builder.emit, value.args)], value.attrs)
    return value
