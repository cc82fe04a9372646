"""Elementwise operators that ONNX has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from ....layout.nets import const
from .onnx_case import (
    HALF,
    IMAGE,
    QUOTIENT,
    REMAINDER,
    ROUNDED,
    WIDE,
    Build,
    N,
    OnnxCase,
    call,
    from_bytes,
)

nn, op = relax.op.nn, relax.op


def _function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(op, name, None) or getattr(nn, name)
    return found


def _each(*names: str) -> dict[str, OnnxCase]:
    return {n: OnnxCase(call(_function(n)), ((2, 5),)) for n in names}


def _mapped(f: Callable[..., Any], change: Callable[..., Any]) -> OnnxCase:
    """A function of a changed input, which is in its domain."""
    return OnnxCase(lambda e, r, x: e(f(change(e, x))), ((2, 5),))


def _positive(e: Any, x: Any) -> Any:
    return e(op.add(e(op.abs(x)), relax.const(0.5)))


def _above_one(e: Any, x: Any) -> Any:
    return e(op.add(_positive(e, x), relax.const(1.0)))


def _small(e: Any, x: Any) -> Any:
    return e(op.multiply(e(op.tanh(x)), relax.const(0.9)))


def _special(e: Any, x: Any) -> Any:
    """Numbers of which some are infinite or none."""
    return e(op.divide(e(op.floor(x)), e(op.floor(e(op.abs(x))))))


def _hard(e: Any, r: Any, x: Any) -> Any:
    line = e(op.add(e(op.multiply(relax.const(0.2), x)), relax.const(0.5)))
    return e(op.clip(line, 0, 1))


def _steep(e: Any, r: Any, x: Any) -> Any:
    x = e(op.negative(x))
    line = e(op.add(e(op.multiply(relax.const(0.2), x)), relax.const(0.5)))
    return e(op.multiply(e(op.clip(line, 0, 1)), x))


def _hard_swish(e: Any, r: Any, x: Any) -> Any:
    x = e(op.negative(x))
    y = e(op.clip(e(op.add(x, relax.const(3.0))), 0, 6))
    return e(op.multiply(x, e(op.divide(y, relax.const(6.0)))))


def _affine(e: Any, r: Any, x: Any) -> Any:
    return e(op.add(e(op.multiply(x, const(r, 4, 1, 1))), const(r, 1, 4, 1, 1)))


def _bounded(e: Any, r: Any, x: Any) -> Any:
    return e(op.minimum(e(op.maximum(x, relax.const(-0.5))), relax.const(0.75)))


def _bytes(e: Any, r: Any, x: Any, y: Any) -> Any:
    """Numbers that fit in 8 bits, and integers of which the low bits stay."""
    small = e(op.astype(e(op.multiply(e(op.abs(x)), relax.const(20.0))), "uint8"))
    low = e(op.astype(e(op.multiply(y, relax.const(90, "int32"))), "uint8"))
    both = (e(op.astype(b, "float32")) for b in (small, low))
    return e(op.add(*both))


def _halves(e: Any, r: Any, x: Any) -> Any:
    y = e(nn.conv2d(x, relax.const(r.standard_normal((3, 4, 3, 3)).astype("float16")), padding=1))
    return e(nn.softmax(e(nn.max_pool2d(e(nn.relu(y)), (2, 2), (2, 2))), 1))


def _integers(e: Any, r: Any, x: Any, y: Any) -> Any:
    """Quotients and remainders of negative numbers too."""
    x, y = (e(op.astype(v, "int32")) for v in (x, y))
    third = e(op.floor_divide(e(op.subtract(x, y)), relax.const(3, "int32")))
    return e(op.floor_mod(third, relax.const(5, "int32")))


def _quantized(axis: int, count: int) -> Build:
    """Values that lie between steps: runtimes round halves otherwise, where a zero point is odd."""

    def build(e: Any, r: Any, x: Any) -> Any:
        scale = relax.const(np.linspace(0.013, 0.021, count).astype("float32"))
        zero = relax.const(2 * np.arange(count, dtype="int8"))
        q = e(op.quantize(x, scale, zero, axis=axis, out_dtype="int8"))
        return e(op.dequantize(q, scale, zero, axis=axis, out_dtype="float32"))

    return build


def _compared(name: str) -> OnnxCase:
    f = _function(name)
    return OnnxCase(from_bytes(lambda x, y: op.astype(f(x, y), "float32"), "int32"),
                    (((2, 5), "int8"), ((5,), "int8")))  # fmt: skip


def _logical(name: str) -> OnnxCase:
    return OnnxCase(call(_function(name)), (((2, 5), "bool"), ((5,), "bool")))


ELEMENTS: dict[str, OnnxCase] = {
    **_each("sigmoid", "tanh", "exp", "abs", "negative", "erf", "floor", "ceil", "sin", "cos",
            "square", "relu", "relu6", "gelu", "gelu_tanh", "silu", "sign", "round", "tan", "sinh",
            "cosh", "atan", "asinh", "selu", "softplus"),
    **{n: _mapped(getattr(op, n), _positive) for n in ("log", "sqrt", "rsqrt")},
    **{n: _mapped(getattr(op, n), _small) for n in ("asin", "acos", "atanh")},
    **{n: _mapped(getattr(op, n), _special) for n in ("isnan", "isinf", "isfinite")},
    "acosh": _mapped(op.acosh, _above_one),
    "divide, integers": OnnxCase(lambda e, r, x, y: e(op.divide(e(op.subtract(x, y)), relax.const(
        3, "int32"))), (((4, 5), "int32"), ((4, 5), "int32")), below=9, refused=QUOTIENT),
    "astype, bytes": OnnxCase(_bytes, ((2, 5), ((2, 5), "int32")), below=9),
    "halves": OnnxCase(_halves, ((IMAGE, "float16"),), refused=HALF),
    "rank 0": OnnxCase(lambda e, r, x: e(op.add(e(op.sum(x)), relax.const(1.5))), ((2, 5),)),
    "leakyrelu": OnnxCase(call(nn.leakyrelu, 0.1), ((2, 5),)),
    "prelu": OnnxCase(lambda e, r, x: e(nn.prelu(x, const(r, 4))), (IMAGE,)),
    "clip": OnnxCase(call(op.clip, -0.25, 0.5), ((2, 5),)),
    "hard sigmoid": OnnxCase(_hard, ((2, 5),)),
    "hard swish": OnnxCase(_hard_swish, ((2, 5),)),
    "steep hard swish": OnnxCase(_steep, ((2, 5),)),
    "bounds": OnnxCase(_bounded, ((2, 5),)),
    "affine by channel": OnnxCase(_affine, (IMAGE,)),
    **{n: OnnxCase(call(getattr(op, n)), ((N, 5), (3, 1, 5)))
       for n in ("add", "subtract", "multiply", "maximum", "minimum")},
    "integers": OnnxCase(_integers, (((2, 5), "int8"), ((2, 5), "int8"))),
    "compared, large": OnnxCase(call(op.less), (((2, 5), "int32"), ((5,), "int32")),
                                refused=ROUNDED),
    "remainder, large": OnnxCase(lambda e, r, x: e(op.floor_mod(x, relax.const(5, "int32"))),
                                 (((2, 5), "int32"),), refused=ROUNDED),
    "bool, large": OnnxCase(call(op.astype, "bool"), (((2, 5), "int32"),), refused=ROUNDED),
    "wide integers": OnnxCase(lambda e, r, x: e(op.multiply(x, relax.const(2**40, "int64"))),
                              (((2, 5), "int64"),), refused=WIDE),
    "floor_divide": OnnxCase(call(op.floor_divide, relax.const(0.7)), ((2, 5),)),
    "mod": OnnxCase(call(op.mod, relax.const(0.7)), ((2, 5),), refused=REMAINDER),
    "divide": OnnxCase(lambda e, r, x: e(op.divide(relax.const(1.0), e(op.exp(x)))), ((2, 5),)),
    "power": OnnxCase(call(op.power, relax.const(2.0)), ((2, 5),)),
    **{n: _compared(n) for n in ("equal", "not_equal", "greater", "greater_equal", "less",
                                 "less_equal")},
    **{n: _logical(n) for n in ("logical_and", "logical_or", "logical_xor", "bitwise_and",
                                "bitwise_or")},
    **{n: OnnxCase(call(_function(n)), (((2, 5), "bool"),))
       for n in ("logical_not", "bitwise_not")},
    "where": OnnxCase(lambda e, r, c, x: e(op.where(c, x, relax.const(-1.5))),
                      (((2, 1), "bool"), (2, 5))),
    "astype to 8 bits": OnnxCase(lambda e, r, x: e(op.astype(e(op.clip(e(op.multiply(
        x, relax.const(99.0))), -128, 127)), "int8")), ((4, 25),)),
    "astype to codes": OnnxCase(lambda e, r, x: e(op.astype(e(op.round(e(op.clip(e(op.multiply(
        x, relax.const(99.0))), 0, 255)))), "uint8")), ((4, 25),)),
    "astype": OnnxCase(lambda e, r, x: e(op.astype(e(op.astype(x, "int32")), "float32")),
                       ((2, 5),)),
    "quantize": OnnxCase(_quantized(0, 1), ((2, 5),)),
    "quantize by channel": OnnxCase(_quantized(1, 4), (IMAGE,)),
}  # fmt: skip
