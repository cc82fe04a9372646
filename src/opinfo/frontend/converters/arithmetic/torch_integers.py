"""Shifts, negation and divisors of integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from ...formulas.common_divisors import common_divisors
from ..nodes.arguments import Converter, arguments, tensor

op = relax.op


def _shift(left: bool) -> Converter:
    """Convert a shift; one by a negative number or by all bits leaves no bits but the sign."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        emit, dtype = importer.block_builder.emit, importer.computed(node)
        if "int" not in dtype:
            raise NotImplementedError(f"it shifts {dtype}, expected integers; multiply by a power "
                                      "of 2")  # fmt: skip
        x, by = (
            v if str(v.ty.dtype) == dtype else emit(op.astype(v, dtype))
            for v in (tensor(importer, args[name], dtype) for name in ("self", "other"))
        )
        bits = int(dtype.strip("uint"))
        known = args["other"]
        if isinstance(known, int) and 0 <= known < bits:
            return emit(op.left_shift(x, by) if left else op.right_shift(x, by))
        zero, last = relax.const(0, dtype), relax.const(bits - 1, dtype)
        outside = emit(op.logical_or(emit(op.less(by, zero)), emit(op.greater(by, last))))
        by = emit(op.where(outside, last, by))
        shifted = emit(op.left_shift(x, by) if left else op.right_shift(x, by))
        if left or dtype.startswith("u"):
            return emit(op.where(outside, zero, shifted))
        return shifted

    return convert


def _negative(importer: Any, node: Any) -> Any:
    """Convert neg; TVM lowers that of unsigned integers to a product with -1, which they lack."""
    x = arguments(importer, node)["self"]
    if not str(x.ty.dtype).startswith("uint"):
        return importer.block_builder.emit(op.negative(x))
    return importer.block_builder.emit(op.subtract(relax.const(0, x.ty.dtype), x))


def _gcd(importer: Any, node: Any) -> Any:
    return _divisor(importer, node)[0]


def _lcm(importer: Any, node: Any) -> Any:
    """Convert lcm, ``abs(a / gcd(a, b) * b)``; that with 0 is 0."""
    divisor, left, right = _divisor(importer, node)
    emit, dtype = importer.block_builder.emit, str(divisor.ty.dtype)
    zero, one = relax.const(0, dtype), relax.const(1, dtype)
    safe = emit(op.where(emit(op.equal(divisor, zero)), one, divisor))
    multiple = emit(op.multiply(emit(op.divide(left, safe)), right))
    return multiple if dtype.startswith("u") else emit(op.abs(multiple))


def _divisor(importer: Any, node: Any) -> tuple[Any, Any, Any]:
    """Return the greatest common divisor of the operands, and these in its dtype."""
    args, dtype = arguments(importer, node), importer.computed(node)
    left, right = (tensor(importer, args[name], dtype) for name in ("self", "other"))
    sizes = importer._sizes(node)
    return common_divisors(importer.block_builder, left, right, sizes), left, right


CONVERTERS: Mapping[str, Converter] = {
    "neg.default": _negative, "gcd.default": _gcd, "lcm.default": _lcm,
    **{f"{name}.{kind}": _shift(left)
       for name, left in (("__lshift__", True), ("__rshift__", False))
       for kind in ("Tensor", "Scalar")},
    **{f"bitwise_{side}_shift.{kind}": _shift(side == "left")
       for side in ("left", "right") for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")},
}  # fmt: skip
