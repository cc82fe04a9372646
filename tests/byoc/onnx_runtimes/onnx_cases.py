"""Operators that ONNX has, one case each, for the backends that read ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.analysis.composites.products import transposed_matmul
from opinfo.analysis.recurrent.quantized_lstm_operator import quantized_lstm
from opinfo.analysis.recurrent.recurrence_operator import recurrence
from opinfo.byoc import Backend, Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Region

from ...layout.nets import const

nn, op = relax.op.nn, relax.op
N, M = (tvm.tirx.Var(name, "int64") for name in "nm")
#: What symbols are in tests.
SIZES = {"n": 3, "m": 4}
IMAGE = (2, 4, 7, 6)
LAST = (2, 7, 6, 4)
Build = Callable[..., Any]
WIDE = "the dtype is int64, which OpenVINO rounds beyond 2^24"
ROUNDED = "the dtype is int32, which OpenVINO rounds beyond 2^24"
HALF = "the dtype is float16, which OpenVINO computes as float32"
REMAINDER = "OpenVINO computes remainders of floats from rounded quotients"
QUOTIENT = "the dtype is int32, of which OpenVINO rounds quotients down"
SUMS = "the dtype is int32, of which OpenVINO rounds sums of products to float32"
LACKED = "lacked"
TURNED = "the layout is NHWC; OpenVINO misreads tensors between transposes"


@dataclass(frozen=True)
class OnnxCase:
    """``build(emit, rng, *inputs)``; an input is a shape, and a dtype if it is not float32.

    Integers are drawn from 0 to ``below``. ``refused`` says why OpenVINO does not take it.
    """

    build: Build
    inputs: tuple[Any, ...]
    below: int = 4
    refused: str = ""

    def parameters(self, name: str) -> list[Any]:
        return [relax.Var(f"{name}_{j}", relax.TensorType(shape, dtype))
                for j, (shape, dtype) in enumerate(map(_typed, self.inputs))]  # fmt: skip

    def drawn(self, rng: Any) -> list[Any]:
        return [_value(rng, shape, dtype, self.below) for shape, dtype in map(_typed, self.inputs)]


def _typed(given: Any) -> tuple[Any, str]:
    return given if len(given) == 2 and isinstance(given[1], str) else (given, "float32")


def _value(rng: Any, shape: Any, dtype: str, below: int) -> Any:
    extents = [e if isinstance(e, int) else SIZES[e.name] for e in shape]
    if dtype.startswith("float"):
        return rng.standard_normal(extents).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else below, extents).astype(dtype)


def recording() -> tuple[Backend, list[Region]]:
    """ONNX Runtime without code, and the regions that it is given."""
    regions: list[Region] = []

    def convert(converted: Sequence[Region]) -> Code:
        regions.extend(converted)
        return Code("", tuple(r.symbol for r in converted))

    return replace(find("onnxruntime"), convert=convert), regions


def call(f: Callable[..., Any], *args: Any, **attrs: Any) -> Build:
    return lambda e, r, *xs: e(f(*xs, *args, **attrs))


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


def _conv(f: Any, *kernel: int, **attrs: Any) -> Build:
    return lambda e, r, x: e(f(x, const(r, *kernel), **attrs))


def _norm(f: Any, *shape: int, **attrs: Any) -> Build:
    return lambda e, r, x: e(f(x, const(r, *shape), const(r, *shape), **attrs))


def _resize(size: Any, **attrs: Any) -> Build:
    return call(op.image.resize2d, relax.ShapeExpr(size), **attrs)


def _biased(e: Any, r: Any, x: Any) -> Any:
    y = e(nn.conv2d_transpose(x, const(r, 4, 3, 2, 2), strides=(2, 2)))
    return e(op.add(y, const(r, 1, 3, 1, 1)))


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


def _from_the_end(e: Any, r: Any, x: Any, i: Any) -> Any:
    """Indices from -2 to 1, of which negative ones count from the end."""
    i = e(op.subtract(i, relax.const(2, "int32")))
    last = e(op.add(i, relax.const(5, "int32")))
    return e(op.take(x, e(op.where(e(op.less(i, relax.const(0, "int32"))), last, i)), 1))


def _split(e: Any, r: Any, x: Any) -> Any:
    parts = e(op.split(x, 2, 1))
    return e(op.subtract(*(e(relax.TupleGetItem(parts, k)) for k in range(2))))


def _largest(kind: str, k: int, dtype: str) -> Build:
    """The largest or smallest of few different numbers, and their places."""

    def build(e: Any, r: Any, x: Any) -> Any:
        found = e(op.topk(e(op.floor(x)), k, 1, kind, k > 2, dtype))
        if kind != "both":
            return found
        values, places = (e(relax.TupleGetItem(found, j)) for j in range(2))
        return e(op.add(values, e(op.multiply(e(op.astype(places, "float32")), relax.const(9.0)))))

    return build


def _bytes(e: Any, r: Any, x: Any, y: Any) -> Any:
    """Numbers that fit in 8 bits, and integers of which the low bits stay."""
    small = e(op.astype(e(op.multiply(e(op.abs(x)), relax.const(20.0))), "uint8"))
    low = e(op.astype(e(op.multiply(y, relax.const(90, "int32"))), "uint8"))
    both = (e(op.astype(b, "float32")) for b in (small, low))
    return e(op.add(*both))


def _recurrent(cell: str, activations: tuple[str, ...], **attrs: Any) -> OnnxCase:
    """A layer of 4 units over a batch of 1, of which all states are read."""
    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[cell]

    def build(e: Any, r: Any, x: Any, *initial: Any) -> Any:
        inputs = e(op.add(e(op.matmul(x, const(r, 3, 4 * gates))), const(r, 4 * gates)))
        operands = [inputs, const(r, 4, 4 * gates), const(r, 4 * gates), *initial]
        found = e(recurrence(operands, cell, activations, **attrs))
        steps, *last = (e(relax.TupleGetItem(found, k)) for k in range(1 + states))
        return e(op.concat([e(op.reshape(steps, (N, 4))), *last], 0))

    return OnnxCase(build, ((N, 1, 3), *[(1, 4)] * states))


def _quantized_lstm(dtype: str, zero: int, columns: int, **attrs: Any) -> OnnxCase:
    """An LSTM of 4 units over integers, whose weights have so many scales and zero points."""

    def build(e: Any, r: Any, x: Any, *initial: Any) -> Any:
        weights = []
        for rows in (3, 4):
            codes = r.integers(zero - 128, zero + 128, (rows, 16)).astype(dtype)
            scale = r.uniform(0.01, 0.02, columns).astype("float32")
            weights += [relax.const(codes), relax.const(scale),
                        relax.const(np.full(columns, zero, dtype))]  # fmt: skip
        operands = [x, *weights, const(r, 16), *initial]
        found = e(quantized_lstm(operands, ("Sigmoid", "Tanh", "Tanh"), **attrs))
        steps, *last = (e(relax.TupleGetItem(found, k)) for k in range(3))
        return e(op.concat([e(op.reshape(steps, (N, 4))), *last], 0))

    return OnnxCase(build, ((N, 1, 3), (1, 4), (1, 4)), refused=LACKED)


def _any(e: Any, r: Any, x: Any) -> Any:
    """Whether there is a true element, as exporters write it."""
    return e(op.astype(e(op.max(e(op.astype(x, "int8")), [2, 3])), "bool"))


def _halves(e: Any, r: Any, x: Any) -> Any:
    y = e(nn.conv2d(x, relax.const(r.standard_normal((3, 4, 3, 3)).astype("float16")), padding=1))
    return e(nn.softmax(e(nn.max_pool2d(e(nn.relu(y)), (2, 2), (2, 2))), 1))


def _from_bytes(f: Callable[..., Any], dtype: str) -> Build:
    """A function of integers that are known to be small, as they were bytes."""
    return lambda e, r, *xs: e(f(*(
        e(op.astype(x, dtype)) if str(x.ty.dtype) == "int8" else x for x in xs)))  # fmt: skip


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
    return OnnxCase(_from_bytes(lambda x, y: op.astype(f(x, y), "float32"), "int32"),
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
IMAGES: dict[str, OnnxCase] = {
    "conv1d": OnnxCase(_conv(nn.conv1d, 6, 4, 3, strides=2, padding=1), ((2, 4, 9),)),
    "conv2d": OnnxCase(_conv(nn.conv2d, 6, 2, 3, 2, groups=2, padding=(1, 0, 2, 1),
                             dilation=(2, 1)), ((N, 4, 7, 6),)),
    "conv2d, channels last": OnnxCase(_conv(nn.conv2d, 6, 3, 3, 4, data_layout="NHWC",
                                            kernel_layout="OHWI"), (LAST,), refused=TURNED),
    "conv3d": OnnxCase(_conv(nn.conv3d, 4, 3, 2, 3, 3, padding=(0, 1, 1)), ((1, 3, 4, 5, 6),)),
    "conv1d_transpose": OnnxCase(_conv(nn.conv1d_transpose, 4, 3, 4, strides=2, padding=1),
                                 ((2, 4, N),)),
    "conv2d_transpose": OnnxCase(_conv(nn.conv2d_transpose, 4, 3, 3, 3, strides=(2, 2), groups=2,
                                       padding=(1, 1, 1, 1), output_padding=(1, 1)), (IMAGE,)),
    "conv2d_transpose, bias": OnnxCase(_biased, (IMAGE,)),
    "max_pool2d": OnnxCase(call(nn.max_pool2d, (3, 2), (2, 1), (1, 0, 1, 1), (1, 2)), (IMAGE,)),
    "max_pool2d, int8": OnnxCase(call(nn.max_pool2d, (3, 2), (2, 1), (1, 0, 1, 1)),
                                 ((IMAGE, "int8"),)),
    "max_pool2d, rounded up": OnnxCase(call(nn.max_pool2d, (3, 3), (2, 2), ceil_mode=True),
                                       ((1, 4, 6, 6),)),
    "max_pool2d, channels last": OnnxCase(call(nn.max_pool2d, (2, 2), (2, 2), layout="NHWC"),
                                          (LAST,), refused=TURNED),
    "avg_pool2d": OnnxCase(call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1)), (IMAGE,)),
    "avg_pool2d with padding": OnnxCase(call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1),
                                              count_include_pad=True), (IMAGE,)),
    "adaptive_avg_pool2d": OnnxCase(call(nn.adaptive_avg_pool2d, (1, 1)), (IMAGE,)),
    "adaptive_avg_pool2d of parts": OnnxCase(call(nn.adaptive_avg_pool2d, (7, 2)), (IMAGE,)),
    "resize2d, nearest": OnnxCase(_resize(
        (14, 12), method="nearest_neighbor", layout="NCHW",
        coordinate_transformation_mode="asymmetric", rounding_method="floor"), (IMAGE,)),
    "resize2d, linear": OnnxCase(_resize((9, 14), layout="NCHW"), (IMAGE,)),
    "resize2d, align_corners": OnnxCase(_resize(
        (9, 14), layout="NHWC", coordinate_transformation_mode="align_corners"), (LAST,),
        refused=TURNED),
    "resize2d, cubic": OnnxCase(_resize((9, 14), layout="NCHW", method="cubic"), (IMAGE,)),
    "resize2d, symbolic": OnnxCase(_resize((N * 2, M * 2), layout="NCHW"), ((1, 2, N, M),)),
    "pad": OnnxCase(call(nn.pad, (0, 0, 0, 0, 1, 2, 3, 0), pad_value=0.5), (IMAGE,)),
    "pad, reflected": OnnxCase(call(nn.pad, (0, 0, 0, 0, 1, 2, 3, 0), "reflect"), (IMAGE,)),
}  # fmt: skip
REDUCED: dict[str, OnnxCase] = {
    "mean": OnnxCase(call(op.mean, [1, 3], keepdims=True), (IMAGE,)),
    "mean of an image": OnnxCase(call(op.mean, [2, 3]), (IMAGE,)),
    "max of an image": OnnxCase(call(op.max, [2, 3], keepdims=True), (IMAGE,)),
    **{n: OnnxCase(call(getattr(op, n), [0, 2]), (IMAGE,))
       for n in ("sum", "max", "min", "prod", "variance", "std")},
    **{n: OnnxCase(call(getattr(op, n), 1), (IMAGE,)) for n in ("argmax", "argmin")},
    "any": OnnxCase(_any, ((IMAGE, "bool"),)),
    "cumsum": OnnxCase(call(op.cumsum, 1), ((2, N, 3),)),
    "cumsum of bools": OnnxCase(call(op.cumsum, -1, "int32", True), (((3, 5), "bool"),)),
    "cumsum of all": OnnxCase(call(op.cumsum), ((3, 5),)),
    "sum of all": OnnxCase(call(op.sum), ((3, 4),)),
    "softmax": OnnxCase(call(nn.softmax, 1), ((N, 5, 4),)),
    "log_softmax": OnnxCase(call(nn.log_softmax, -1), ((N, 5),)),
    "layer_norm": OnnxCase(_norm(nn.layer_norm, 5, 6, axes=[-2, -1]), ((N, 5, 6),)),
    "rms_norm": OnnxCase(lambda e, r, x: e(nn.rms_norm(x, const(r, 6), axes=[-1])), ((N, 5, 6),)),
    "group_norm": OnnxCase(_norm(nn.group_norm, 4, num_groups=2, channel_axis=1, axes=[2, 3]),
                           (IMAGE,)),
    "instance_norm": OnnxCase(_norm(nn.instance_norm, 4, channel_axis=1, axes=[2, 3]), (IMAGE,)),
    "matmul, int32": OnnxCase(call(op.matmul), (((2, N, 6), "int32"), ((6, 5), "int32")),
                              below=9000, refused=SUMS),
    "matmul": OnnxCase(call(op.matmul), ((2, 1, N, 6), (3, 6, 5))),
    "einsum": OnnxCase(lambda e, r, x, y: e(op.einsum((x, y), "bij,bkj->bki")),
                       ((2, 3, 4), (2, 5, 4))),
    "transposed_matmul": OnnxCase(call(transposed_matmul), ((2, N, 4), (5, 4))),
    "transposed_matmul, both": OnnxCase(call(transposed_matmul, transposed=[True, True]),
                                        ((2, 4, 3), (5, 4))),
    "outer": OnnxCase(call(op.outer), ((3,), (4,))),
    "attention": OnnxCase(call(nn.attention), ((2, 5, 3, 8), (2, 6, 3, 8), (2, 6, 3, 4))),
    "attention, causal": OnnxCase(call(nn.attention, causal_mask="TopLeft", scale=0.3),
                                  ((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8))),
}  # fmt: skip
MOVED: dict[str, OnnxCase] = {
    "reshape": OnnxCase(lambda e, r, x: e(op.reshape(x, (N, 30))), ((N, 5, 6),)),
    "reshape, two symbols": OnnxCase(lambda e, r, x: e(op.reshape(x, (M, 2, N * 3))),
                                     ((N, M, 6),)),
    "expand_dims": OnnxCase(call(op.expand_dims, [0, 2]), ((N, 5),)),
    "squeeze": OnnxCase(call(op.squeeze, [1]), ((N, 1, 5),)),
    "permute_dims": OnnxCase(call(op.permute_dims, [0, 2, 3, 1]), (IMAGE,)),
    "concat": OnnxCase(lambda e, r, x, y: e(op.concat([x, y, const(r, 2, 1)], 1)),
                       ((2, 3), (2, 4))),
    "stack": OnnxCase(lambda e, r, x, y: e(op.stack([x, y], 1)), ((2, 3), (2, 3))),
    "maximum of a stack": OnnxCase(lambda e, r, x, y: e(op.max(e(op.stack([x, y], 0)), 0)),
                                   ((2, 3), (2, 3))),
    "choice by a constant": OnnxCase(lambda e, r, x, y: e(op.exp(e(op.where(
        relax.const(np.zeros((2, 3), "bool")), x, y)))), ((2, 3), (2, 3))),
    "split": OnnxCase(_split, ((2, 6),)),
    "strided_slice": OnnxCase(call(op.strided_slice, [1, 3], [0, 5], [3, 0], [1, -2]), (IMAGE,)),
    "strided_slice, symbolic": OnnxCase(
        lambda e, r, x: e(op.strided_slice(x, [1], [0], [N - 1], [1])), ((2, N),)),
    "strided_slice, one shorter": OnnxCase(lambda e, r, x, y: e(op.strided_slice(
        e(op.concat([x, y], 1)), [1], [0], [N], [1])), ((2, N), (2, 1))),
    "flip": OnnxCase(call(op.flip, 1), (IMAGE,)),
    "tile": OnnxCase(call(op.tile, (2, 1, 3)), ((2, 5),)),
    "repeat": OnnxCase(call(op.repeat, 3, 1), ((2, 5),)),
    "broadcast_to": OnnxCase(call(op.broadcast_to, (4, 2, 5)), ((2, 1),)),
    "broadcast_to a sum": OnnxCase(lambda e, r, x, y: e(op.broadcast_to(
        e(op.concat([x, y], 0)), (3, N + M, 2))), ((N, 2), (M, 2))),
    "tril": OnnxCase(call(op.tril, 1), ((2, 4, 5),)),
    "triu": OnnxCase(call(op.triu, -1), ((2, 4, 5),)),
    "take": OnnxCase(lambda e, r, i: e(op.take(const(r, 7, 5), i, 0)), (((2, 3), "int64"),)),
    "take, clipped": OnnxCase(call(op.take, 1, "clip"), ((2, 5), ((4,), "int32")), below=9),
    "take, wrapped": OnnxCase(_from_bytes(lambda x, i: op.take(x, i, 1, "wrap"), "int64"),
                              ((2, 5), ((4,), "int8")), below=9),
    "take, wrapped, large": OnnxCase(call(op.take, 1, "wrap"), ((2, 5), ((4,), "int32")),
                                     refused=ROUNDED),
    "take, from the end": OnnxCase(_from_the_end, ((2, 5), ((4,), "int32"))),
    "gather_elements": OnnxCase(call(op.gather_elements, 1), ((4, 5), ((4, 2), "int64"))),
    "gather_nd": OnnxCase(call(op.gather_nd), ((4, 5, 3), ((2, 2), "int64"))),
    "one_hot": OnnxCase(_from_bytes(lambda i: op.one_hot(
        i, *(tvm.tirx.FloatImm("float32", v) for v in (2.0, -1.0)), 5, -1), "int64"),
        (((2, 3), "int8"),)),
}  # fmt: skip
ORDERED: dict[str, OnnxCase] = {
    "topk": OnnxCase(_largest("both", 3, "int64"), ((4, 9),), refused=LACKED),
    "topk, values": OnnxCase(_largest("values", 2, "int64"), ((4, 9),), refused=LACKED),
    "topk, places": OnnxCase(_largest("indices", 2, "int32"), ((N, 9),), refused=LACKED),
    "sort": OnnxCase(call(op.sort, 1, True), ((3, N),)),
    "argsort": OnnxCase(lambda e, r, x: e(op.argsort(e(op.floor(x)), 0, dtype="int32")),
                        ((9, 4),), refused=LACKED),
    "reverse_sequence": OnnxCase(lambda e, r, x: e(op.reverse_sequence(
        x, relax.const(np.array([2, 1, 4, 3])), 0, 1)), ((5, 4, 2),)),
    "lstm": _recurrent("LSTM", ("Sigmoid", "Tanh", "Tanh")),
    "lstm, reverse": _recurrent("LSTM", ("Sigmoid", "Relu", "Tanh"), reverse=True),
    "lstm, quantised": _quantized_lstm("int8", 0, 1),
    "lstm, quantised by columns": _quantized_lstm("uint8", 128, 16, reverse=True),
    "gru": _recurrent("GRU", ("Sigmoid", "Tanh")),
    "gru, reset after": _recurrent("GRU", ("Sigmoid", "Tanh"), linear_before_reset=True),
    "rnn": _recurrent("RNN", ("Tanh",), reverse=True),
}  # fmt: skip
CASES = {**ELEMENTS, **IMAGES, **REDUCED, **MOVED, **ORDERED}


def module(cases: dict[str, OnnxCase]) -> Any:
    """All cases in one function; the results in order."""
    inputs = [c.parameters(f"x{k}") for k, c in enumerate(cases.values())]
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in inputs for v in vs]):
        with bb.dataflow():
            results = [c.build(bb.emit, np.random.default_rng(0), *vs)
                       for c, vs in zip(cases.values(), inputs, strict=True)]  # fmt: skip
            out = bb.emit_output(relax.Tuple(results))
        bb.emit_func_output(out)
    return bb.get()


def values(cases: dict[str, OnnxCase]) -> list[Any]:
    """The inputs of all cases; those of a case do not depend on the others."""
    seeds = {name: k for k, name in enumerate(CASES)}
    return [x for n, c in cases.items() for x in c.drawn(np.random.default_rng(seeds[n]))]
