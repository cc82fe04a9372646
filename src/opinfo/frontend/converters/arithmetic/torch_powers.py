"""Powers, signs and lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tvm import relax, te, tirx

from ...formulas.integer_powers import integer_powers
from ..nodes.arguments import Converter, arguments, tensor

op = relax.op
_ROOTS = {0.5: op.sqrt, -0.5: op.rsqrt}
#: Above all exponents of float64.
_MOST = 1 << 12
_BITS = {"float16": "int16", "float32": "int32", "float64": "int64"}


def _power(importer: Any, node: Any) -> Any:
    """Convert a power; one of integers wraps around, that with 0.5 is a root of infinities too."""
    args = arguments(importer, node)
    emit, dtype = importer.block_builder.emit, importer.computed(node)
    base, by = args["self"], args["exponent"]
    if isinstance(by, (int, float)):
        if "float" in dtype and by in _ROOTS:
            return emit(_ROOTS[by](base))
        if by >= 0:
            return importer._pow(node)
    base, by = tensor(importer, base, dtype), tensor(importer, by, dtype)
    if "float" in dtype:
        return emit(op.power(base, by))
    wide = emit(op.astype(by, "int64"))
    return emit(integer_powers(importer.block_builder, base, wide, importer._sizes(node)))


def _ldexp(importer: Any, node: Any) -> Any:
    """Convert ldexp, ``x * 2**by``; with an integer `by`, exact where the power overflows.

    If `by` has floats, torch rounds the power to their dtype.
    """
    args, sizes = arguments(importer, node), importer._sizes(node)
    emit, dtype = importer.block_builder.emit, importer.computed(node)
    x, by = args["self"], args["other"]
    exponents = node.args[1].meta["val"].dtype
    if exponents.is_floating_point:
        power = emit(op.power(relax.const(2.0, dtype), by))
        return emit(op.multiply(x, importer._astype(importer._astype(power, exponents),
                                                    getattr(torch, dtype))))  # fmt: skip
    by = emit(op.astype(emit(op.clip(by, -_MOST, _MOST)), "int32"))
    x, by = (emit(op.broadcast_to(v, sizes)) for v in (x, by))
    return importer.block_builder.emit_te(_scaled, x, by, primfunc_name_hint="ldexp")


def _scaled(x: Any, by: Any) -> Any:
    return te.compute(x.shape, lambda *at: tirx.ldexp(x(*at), by(*at)), name="ldexp")


def _signbit(importer: Any, node: Any) -> Any:
    return signbit(importer, arguments(importer, node)["self"])


def signbit(importer: Any, x: Any) -> Any:
    """Return whether elements are negative, -0 included: the sign of their bits."""
    dtype = str(x.ty.dtype)
    if dtype not in _BITS:
        return importer.block_builder.emit(op.less(x, relax.const(0, dtype)))

    def compute(data: Any) -> Any:
        def element(*at: Any) -> Any:
            return tirx.reinterpret(_BITS[dtype], data(*at)) < 0

        return te.compute(data.shape, element, "signbit")

    return importer.block_builder.emit_te(compute, x)


def _sign(importer: Any, node: Any) -> Any:
    """Convert a sign; TVM's lowering has none of unsigned integers, where it is 0 or 1."""
    x = arguments(importer, node)["self"]
    dtype = str(x.ty.dtype)
    if dtype == "bool":
        return x
    unsigned = dtype.startswith("u")
    return importer.block_builder.emit(
        op.minimum(x, relax.const(1, dtype)) if unsigned else op.sign(x)
    )


def _copysign(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    emit, dtype = importer.block_builder.emit, importer.computed(node)
    size = emit(op.abs(tensor(importer, args["self"], dtype)))
    negative = signbit(importer, tensor(importer, args["other"], dtype))
    return emit(op.where(negative, emit(op.negative(size)), size))


def _hypot(importer: Any, node: Any) -> Any:
    args, dtype = arguments(importer, node), importer.computed(node)
    return hypotenuse(
        importer, *(tensor(importer, args[name], dtype) for name in ("self", "other"))
    )


def hypotenuse(importer: Any, left: Any, right: Any) -> Any:
    """Return ``a * sqrt(1 + (b / a)**2)`` for the larger size a, which does not overflow.

    It is infinite if an operand is, even beside NaN.
    """
    emit, dtype = importer.block_builder.emit, str(left.ty.dtype)
    sizes = [emit(op.abs(x)) for x in (left, right)]
    more, less = emit(op.maximum(*sizes)), emit(op.minimum(*sizes))
    one, none, limit = (relax.const(v, dtype) for v in (1.0, 0.0, float("inf")))
    plain = emit(op.logical_or(op.equal(more, none), op.equal(more, limit)))
    share = emit(op.divide(less, emit(op.where(plain, one, more))))
    factor = emit(op.sqrt(emit(op.add(one, emit(op.multiply(share, share))))))
    length = emit(op.where(plain, more, emit(op.multiply(more, factor))))
    total = emit(op.add(*sizes))  # NaN if an operand is; TVM's maximum may drop it
    length = emit(op.where(emit(op.isnan(total)), total, length))
    infinite = emit(op.logical_or(*(emit(op.equal(size, limit)) for size in sizes)))
    return emit(op.where(infinite, limit, length))


CONVERTERS: Mapping[str, Converter] = {
    **{f"pow.{kind}": _power for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
    "sign.default": _sign, "signbit.default": _signbit, "hypot.default": _hypot,
    "ldexp.Tensor": _ldexp, "copysign.Tensor": _copysign, "copysign.Scalar": _copysign,
}  # fmt: skip
