"""Calls of Relax operators by name, from operands and attributes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import tvm
from tvm import relax, tirx

from ..support.ir.constructors import constructor_of
from .proposal import Constant


class NotBuilt(Exception):
    """The proposal is not a valid call of the operator, or does not lower to one PrimFunc."""


def constructor(name: str) -> Any:
    """Return the constructor of an operator; raises `NotBuilt` if it has none."""
    build = constructor_of(name)
    if build is None:
        raise NotBuilt(f"tvm.relax.op has no constructor for {name}")
    return build


def parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the constructor's parameters by name."""
    return _parameters(constructor(name))


@cache
def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def operand_names(name: str) -> tuple[str, ...]:
    """Return the constructor's tensor parameters; a Python scalar there becomes a literal.

    ``int | Expr`` is a size or a scalar that the constructor itself converts.
    """
    if name in NUMBERED:
        return ()
    return _operand_names(constructor(name))


@cache
def _operand_names(function: Any) -> tuple[str, ...]:
    return tuple(p.name for p in _parameters(function).values() if p.annotation is tvm.ir.Expr)


def call_op(name: str, operands: Sequence[Any], attrs: Mapping[str, Any], dtype: str) -> Any:
    """Return the Relax call; operands among `attrs` become constants of `dtype`, or shapes."""
    return constructor(name)(**arguments(name, operands, attrs, dtype))


def arguments(
    name: str, operands: Sequence[Any], attrs: Mapping[str, Any], dtype: str
) -> dict[str, Any]:
    """Return the arguments of the public constructor by name; literal operands are `dtype`."""
    named = {k: _typed(v) for k, v in attrs.items()}
    for key in operand_names(name):
        value = named.get(key)
        if isinstance(value, (int, float, bool)):
            named[key] = relax.const(value, dtype)
        elif isinstance(value, (tirx.IntImm, tirx.FloatImm)):
            named[key] = relax.const(value.value, str(value.ty.dtype))
        elif name in SHAPED and isinstance(value, (list, tuple)):
            named[key] = relax.ShapeExpr(value)
    remaining = iter(_grouped(name, operands))
    for key in parameters(name):
        if key not in named and (value := next(remaining, None)) is not None:
            named[key] = value
    if next(remaining, None) is not None:
        raise NotBuilt(f"{name} takes fewer than {len(operands)} operands")
    return named


def _grouped(name: str, operands: Sequence[Any]) -> list[Any]:
    """The operands, grouped into a tuple where the constructor takes one."""
    if name in TUPLED:
        return [list(operands)]
    if name in TUPLED_REST:
        return [operands[0], list(operands[1:])]
    if name in TUPLED_MIDDLE:
        return [operands[0], tuple(operands[1:-1]), operands[-1]]
    return list(operands)


def bind_arguments(
    name: str, operands: Sequence[int | Constant], attrs: Mapping[str, Any], params: Any
) -> dict[str, Any]:
    """Return the arguments of a constructor, see `OpInfo.bind`."""
    try:
        values = [relax.const(o.value, o.dtype) if isinstance(o, Constant) else params[o]
                 for o in operands]  # fmt: skip
    except LookupError:
        places = sorted({o for o in operands if not isinstance(o, Constant)})
        raise ValueError(f"bind: {name} reads the parameters {places} of the PrimFunc, by "
                         f"position; got {len(params)} values") from None  # fmt: skip
    dtype = str(values[0].ty.dtype if values else attrs.get("dtype", "float32"))
    return arguments(name, values, attrs, dtype)


#: Operators whose scalars are numbers, although they are annotated as Expr.
NUMBERED = frozenset({"relax.clip"})


#: Operators whose operand is a shape.
SHAPED = frozenset({"relax.shape_to_tensor"})


#: Operators that take all operands as a tuple; all but the first; all but the first and last.
TUPLED = frozenset({"relax.concat", "relax.stack", "relax.einsum", "relax.meshgrid",
                    "relax.nn.recurrence", "relax.nn.quantized_lstm"})  # fmt: skip


TUPLED_REST = frozenset({"relax.index_tensor"})


TUPLED_MIDDLE = frozenset({"relax.index_put"})


def _typed(value: Any) -> Any:
    """An attribute as TVM expects it: a `Constant` becomes a literal of its type."""
    return tirx.const(value.value, value.dtype) if isinstance(value, Constant) else value
