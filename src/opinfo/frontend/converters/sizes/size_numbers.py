"""Real numbers that programs compute from sizes, such as `n ** -0.5`, as float64 tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax

from .program_sizes import expression

op = relax.op
_NARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": op.add, "Mul": op.multiply, "Max": op.maximum, "Min": op.minimum,
}  # fmt: skip
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Pow": op.power, "FloatPow": op.power, "PowByNatural": op.power,
    "IntTrueDiv": op.divide, "FloatTrueDiv": op.divide,
}  # fmt: skip
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "ToFloat": lambda x: x, "Abs": op.abs,
    **{f"OpaqueUnaryFn_{name}": getattr(op, name)
       for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh")},
}  # fmt: skip


def number_of_sizes(importer: Any, number: Any, variables: Mapping[str, Any]) -> Any:
    """Return an expression of sympy as a float64 tensor without axes, as Python computes it.

    Raises:
        NotImplementedError: It has a function without a lowering, or a size that depends on data.
    """
    emit, kind = importer.block_builder.emit, type(number).__name__
    if str(number) in importer.items and isinstance(importer.items[str(number)].ty,
                                                    relax.TensorType):  # fmt: skip
        item = emit(op.reshape(importer.items[str(number)], ()))
        return emit(op.astype(item, "float64"))
    if number.is_Number:
        return relax.const(float(number), "float64")
    if kind not in (*_NARY, *_BINARY, *_UNARY):
        return importer._number(expression(number, variables), "float64")
    parts = [number_of_sizes(importer, part, variables) for part in number.args]
    if kind in _NARY:
        return functools.reduce(lambda a, b: emit(_NARY[kind](a, b)), parts)
    if kind in _BINARY:
        return emit(_BINARY[kind](*parts))
    value = _UNARY[kind](*parts)
    return value if value is parts[0] else emit(value)
