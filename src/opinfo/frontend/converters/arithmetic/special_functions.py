"""Functions that Relax lacks, by the approximations of the literature."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax

from ...formulas.log_gamma import log_gamma
from ..nodes.arguments import Converter, arguments, tensor

op = relax.op
#: The logarithm of erfc(x) * (1 + x/2) * exp(x**2) as a polynomial of 1 / (1 + x/2), from the
#: highest power; its error is 1.2e-7 (Numerical Recipes, erfcc).
_ERFC = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
         0.37409196, 1.00002368, -1.26551223)  # fmt: skip
#: erfinv(x) / x as polynomials of w = -log(1 - x**2), less 2.5 below 5, and of its root, less 3
#: (Giles, Approximating the erfinv function, 2010).
_CENTRAL = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
            -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
#: The Bessel function I0 as a polynomial of (x / 3.75)**2 below 3.75, and its product with
#: sqrt(x) * exp(-x) as one of 3.75 / x; their errors are 2e-7 (Abramowitz and Stegun, 9.8.1-2).
_SMALL_I0 = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_LARGE_I0 = (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
             0.01328592, 0.39894228)  # fmt: skip


def _single(function: Callable[[Callable[..., Any], Any], Any]) -> Converter:
    """Convert by an approximation whose error is that of float32."""
    convert = _unary(function)

    def checked(importer: Any, node: Any) -> Any:
        if importer.computed(node) == "float64":
            raise NotImplementedError(
                f"{node.target.__name__} is approximated to the precision of float32, and its "
                "operand is float64; cast the operand to float32"
            )
        return convert(importer, node)

    return checked


def _unary(function: Callable[[Callable[..., Any], Any], Any]) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        x = tensor(importer, arguments(importer, node)["self"], importer.computed(node))
        return importer.block_builder.emit(function(importer.block_builder.emit, x))

    return convert


def _polynomial(emit: Any, x: Any, coefficients: Sequence[float]) -> Any:
    first, *others = (relax.const(c, x.ty.dtype) for c in coefficients)
    return functools.reduce(lambda sum_, c: emit(op.add(emit(op.multiply(sum_, x)), c)), others,
                            first)  # fmt: skip


def _erfc(emit: Any, x: Any) -> Any:
    """Return 1 - erf(x), exact in its tail too."""
    one, two, half, none = (relax.const(v, x.ty.dtype) for v in (1.0, 2.0, 0.5, 0.0))
    size = emit(op.abs(x))
    t = emit(op.divide(one, emit(op.add(one, emit(op.multiply(half, size))))))
    exponent = emit(op.subtract(_polynomial(emit, t, _ERFC), emit(op.multiply(size, size))))
    tail = emit(op.multiply(t, emit(op.exp(exponent))))
    return op.where(emit(op.less(x, none)), emit(op.subtract(two, tail)), tail)


def _erfinv(emit: Any, x: Any) -> Any:
    one, five, limit = (relax.const(v, x.ty.dtype) for v in (1.0, 5.0, float("inf")))
    rest = emit(op.multiply(emit(op.subtract(one, x)), emit(op.add(one, x))))
    w = emit(op.negative(emit(op.log(rest))))
    central = emit(op.subtract(w, relax.const(2.5, x.ty.dtype)))
    outer = emit(op.subtract(emit(op.sqrt(w)), relax.const(3.0, x.ty.dtype)))
    near, far = _polynomial(emit, central, _CENTRAL), _polynomial(emit, outer, _TAIL)
    factor = emit(op.where(emit(op.less(w, five)), near, far))
    factor = emit(op.where(emit(op.equal(emit(op.abs(x)), one)), limit, factor))
    return op.multiply(factor, x)


def _i0(scaled: bool) -> Callable[[Callable[..., Any], Any], Any]:
    """Return the Bessel function I0, or its product with exp(-abs(x))."""

    def function(emit: Any, x: Any) -> Any:
        size, bound = emit(op.abs(x)), relax.const(3.75, x.ty.dtype)
        near = emit(op.divide(emit(op.minimum(size, bound)), bound))
        near = _polynomial(emit, emit(op.multiply(near, near)), _SMALL_I0)
        far = emit(op.maximum(size, bound))
        tail = _polynomial(emit, emit(op.divide(bound, far)), _LARGE_I0)
        tail = emit(op.divide(tail, emit(op.sqrt(far))))
        if scaled:
            near = emit(op.multiply(near, emit(op.exp(emit(op.negative(size))))))
        else:
            tail = emit(op.multiply(tail, emit(op.exp(far))))
        value = emit(op.where(emit(op.less(size, bound)), near, tail))
        return op.where(emit(op.isnan(x)), x, value)

    return function


def _exp2(emit: Any, x: Any) -> Any:
    return op.power(relax.const(2.0, x.ty.dtype), x)


def _lgamma(importer: Any, node: Any) -> Any:
    return importer.block_builder.emit_te(log_gamma, arguments(importer, node)["self"])


def _without_nan(extreme: Callable[[Any, Any], Any]) -> Converter:
    """Convert fmax and fmin: of a number and NaN, the number."""

    def convert(importer: Any, node: Any) -> Any:
        args, emit = arguments(importer, node), importer.block_builder.emit
        x, y = args["self"], args["other"]
        out = emit(extreme(x, y))
        for number, other in ((x, y), (y, x)):
            if "float" in str(other.ty.dtype):
                out = emit(op.where(emit(op.isnan(other)), number, out))
        return out

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "erfc.default": _single(_erfc), "erfinv.default": _single(_erfinv),
    "i0.default": _single(_i0(False)), "special_i0e.default": _single(_i0(True)),
    "exp2.default": _unary(_exp2), "lgamma.default": _lgamma,
    "fmax.default": _without_nan(op.maximum), "fmin.default": _without_nan(op.minimum),
}  # fmt: skip
