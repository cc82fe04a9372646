"""Quotients and remainders, which torch derives from the remainder of C.

A CPU ends the process at an integer divided by 0, and at the least one divided by -1. torch fails
at 0, and so does the model: it divides by 1 there, and asserts that no divisor is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from tvm import relax

from ..nodes.arguments import Converter, arguments, tensor
from ..nodes.assertions import assert_none

op = relax.op


def _converter(
    of_integers: Callable[..., Any], of_reals: Callable[..., Any], mode: str | None = None
) -> Converter:
    """Convert ``f(self, other)``, in the dtype of the result; a `mode` chooses among quotients."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        dtype = importer.computed(node)
        x, y = (tensor(importer, args[name], dtype) for name in ("self", "other"))
        divides = "rounding_mode" in args or mode is not None
        more = (args.get("rounding_mode", mode),) if divides else ()
        emit = importer.block_builder.emit
        if "float" in dtype and divides and _is_zero(args["other"]):
            return emit(_by_zero(x, args["other"]))
        if "float" in dtype:
            return emit(of_reals(emit, x, y, *more))
        safe, negated = _divisor(importer, node, y)
        return emit(of_integers(emit, x, safe, negated, *more))

    return convert


def _by_zero(x: Any, zero: float) -> Any:
    """Return a quotient by 0 or -0: an infinity, and NaN for 0."""
    return op.multiply(x, relax.const(math.copysign(math.inf, zero), x.ty.dtype))


def _is_zero(divisor: Any) -> bool:
    """Return whether a divisor is the number 0, by which TVM does not compile a quotient."""
    return isinstance(divisor, (int, float)) and divisor == 0


def _divisor(importer: Any, node: Any, y: Any) -> tuple[Any, Any]:
    """Return a divisor that does not fail, and where the quotient by it is to be negated."""
    emit, given = importer.block_builder.emit, node.args[1]
    known = importer.constant(given) if hasattr(given, "op") else given
    zero, one, minus = (relax.const(v, y.ty.dtype) for v in (0, 1, -1 if _signed(y) else 1))
    if known is None and _is_positive(given.meta["val"]):
        return y, None
    values = None if known is None else _elements(known, str(y.ty.dtype))
    if values is None or 0 in values:
        is_zero = emit(op.equal(y, zero))
        assert_none(importer, is_zero, "an integer is divided by 0")
        y = emit(op.where(is_zero, one, y))
    if not _signed(y) or (values is not None and -1 not in values):
        return y, None
    is_minus = emit(op.equal(y, minus))
    return emit(op.where(is_minus, one, y)), is_minus


def _is_positive(value: Any) -> bool:
    """Return whether a value is a size of at least 1."""
    return isinstance(value, torch.SymInt) and bool(statically_known_true(value > 0))


def _elements(known: Any, dtype: str) -> set[Any]:
    """Return the elements of a divisor in the dtype of the quotient, in which 256 may be 0."""
    return set(torch.as_tensor(known).to(getattr(torch, dtype)).reshape(-1).tolist())


def _signed(x: Any) -> bool:
    return str(x.ty.dtype).startswith("int")


def _whole(emit: Any, x: Any, y: Any, negated: Any, mode: str) -> Any:
    """Return the quotient of integers, rounded down or towards 0."""
    quotient = emit(op.floor_divide(x, y))
    if mode == "trunc" and _signed(x):
        rest = emit(op.subtract(x, emit(op.multiply(quotient, y))))
        zero = relax.const(0, x.ty.dtype)
        up = op.logical_and(op.less(quotient, zero), op.not_equal(rest, zero))
        quotient = emit(op.add(quotient, op.astype(emit(up), str(x.ty.dtype))))
    return quotient if negated is None else op.where(negated, emit(op.negative(quotient)), quotient)


def _real(emit: Any, x: Any, y: Any, mode: str | None) -> Any:
    """Return the quotient of real numbers; ``floor`` rounds ``(x - rest) / y``, as 0.3 // 0.1 is 2.

    The formula is that of ATen's `div_floor_floating`.
    """
    exact = emit(op.divide(x, y))
    if mode != "floor":
        return exact if mode is None else op.trunc(exact)
    rest, dtype = emit(op.mod(x, y)), x.ty.dtype
    zero, half, one = (relax.const(v, dtype) for v in (0.0, 0.5, 1.0))
    quotient = emit(op.divide(emit(op.subtract(x, rest)), y))
    quotient = emit(
        op.where(_other_sign(emit, rest, y), emit(op.subtract(quotient, one)), quotient)
    )
    floor = emit(op.floor(quotient))
    near = emit(op.greater(emit(op.subtract(quotient, floor)), half))
    floor = emit(op.where(near, emit(op.add(floor, one)), floor))
    return op.where(emit(op.equal(y, zero)), exact, floor)


def _other_sign(emit: Any, rest: Any, y: Any) -> Any:
    """Return where a remainder is not 0 and has another sign than the divisor."""
    zero = relax.const(0, rest.ty.dtype)
    differ = emit(op.logical_xor(emit(op.less(rest, zero)), emit(op.less(y, zero))))
    return emit(op.logical_and(differ, emit(op.not_equal(rest, zero))))


def _remainder(emit: Any, x: Any, y: Any) -> Any:
    """Return remainders of real numbers with the sign of the divisor."""
    rest = emit(op.mod(x, y))
    return op.where(_other_sign(emit, rest, y), emit(op.add(rest, y)), rest)


def _of_integers(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda emit, x, y, negated: f(x, y)


def _exact(importer: Any, node: Any) -> Any:
    """Convert the quotient of real numbers."""
    args = arguments(importer, node)
    emit, dtype = importer.block_builder.emit, importer.computed(node)
    x, y = (tensor(importer, args[name], dtype) for name in ("self", "other"))
    return emit(_by_zero(x, args["other"]) if _is_zero(args["other"]) else op.divide(x, y))


_QUOTIENT = _converter(_whole, _real)
_REMAINDER = _converter(_of_integers(op.floor_mod), _remainder)
_FMOD = _converter(_of_integers(op.mod), lambda emit, x, y: op.mod(x, y))
CONVERTERS: Mapping[str, Converter] = {
    "div.Tensor": _exact, "div.Scalar": _exact,
    "div.Tensor_mode": _QUOTIENT, "div.Scalar_mode": _QUOTIENT,
    "floor_divide.default": _converter(_whole, _real, "floor"),
    "remainder.Tensor": _REMAINDER, "remainder.Scalar": _REMAINDER,
    "remainder.Scalar_Tensor": _REMAINDER,
    "fmod.Tensor": _FMOD, "fmod.Scalar": _FMOD,
}  # fmt: skip
