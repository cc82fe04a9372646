"""Convolutions that cuDNN takes, and what it computes after them."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .case import Build, Case, N

nn, op = relax.op.nn, relax.op
IMAGE, PICTURE = (2, 16, 9, 8), (2, 9, 8, 16)
NHWC: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "OHWI"}


def conv(x: Any, w: Any, dtype: str = "float32", f: Any = nn.conv2d, **attrs: Any) -> Case:
    name = f.__name__
    return Case("cudnn", (x,), lambda e, c, v: e(f(v, c(*w), **attrs)), name, dtype)


def chain(*after: Build, ops: str, last: bool = False,
          dtype: str = "float32", more: int = 0) -> Case:  # fmt: skip
    """A convolution, and functions of its result, a factory of constants, and further inputs."""

    def build(emit: Any, const: Any, x: Any, *others: Any) -> Any:
        w = const(24, 3, 3, 16) if last else const(24, 16, 3, 3)
        y = emit(nn.conv2d(x, w, padding=1, **(NHWC if last else {})))
        for f in after:
            y = emit(f(y, const, *others))
        return y

    x, y = (PICTURE, (2, 9, 8, 24)) if last else (IMAGE, (2, 24, 9, 8))
    return Case("cudnn", (x, *[y] * more), build, f"conv2d {ops}".strip(), dtype)


def _in_float32(*after: Build, ops: str, last: bool, dtype: str) -> Case:
    """A half-precision program as frontends write it: in float32, with casts between the steps."""

    def build(emit: Any, const: Any, x: Any) -> Any:
        def wide(*shape: int, **how: Any) -> Any:
            return op.astype(const(*shape, **how), "float32")

        w = const(24, 3, 3, 16) if last else const(24, 16, 3, 3)
        half = str(x.ty.dtype)
        y = emit(nn.conv2d(x, w, padding=1, out_dtype="float32", **(NHWC if last else {})))
        y = emit(op.astype(y, half))
        for f in after:
            y = emit(op.astype(emit(f(emit(op.astype(y, "float32")), wide)), half))
        return y

    return Case("cudnn", (PICTURE if last else IMAGE,), build, f"conv2d {ops}", dtype)


def _normalised(y: Any, const: Any, *_: Any) -> Any:
    last = int(y.ty.shape[-1]) == 24
    shape = (24,) if last else (1, 24, 1, 1)
    return op.add(op.multiply(y, const(*shape, positive=True)), const(*shape))


def _channels(y: Any, const: Any, *_: Any) -> Any:
    last = int(y.ty.shape[-1]) == 24
    return op.add(y, const(24) if last else const(1, 24, 1, 1))


def _relu(y: Any, *_: Any) -> Any:
    return nn.relu(y)


def _add(y: Any, const: Any, z: Any) -> Any:
    return op.add(z, y)


def _given(emit: Any, const: Any, x: Any, w: Any, b: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(nn.conv2d(x, w, padding=1)), b))))


def _bottleneck(emit: Any, const: Any, x: Any, z: Any) -> Any:
    """The end of a block as exporters write it: sums in float32, the activation in half."""
    half = str(x.ty.dtype)
    y = emit(nn.conv2d(x, const(24, 16, 3, 3), padding=1, out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(1, 24, 1, 1), "float32"))), half))
    y = emit(op.add(emit(op.astype(y, "float32")), emit(op.astype(z, "float32"))))
    return emit(nn.relu(emit(op.astype(y, half))))


def _linear_block(emit: Any, const: Any, x: Any, z: Any) -> Any:
    """As above, without an activation: z comes first."""
    half = str(x.ty.dtype)
    y = emit(nn.conv2d(x, const(24, 3, 3, 16), padding=1, out_dtype="float32", **NHWC))
    y = emit(op.astype(emit(op.add(y, op.astype(const(24), "float32"))), half))
    y = emit(op.add(emit(op.astype(z, "float32")), emit(op.astype(y, "float32"))))
    return emit(op.astype(y, half))


def _silu_in_float32(emit: Any, const: Any, x: Any) -> Any:
    """x * sigmoid(x) as exporters write it, with a cast around each operator."""
    half = str(x.ty.dtype)
    y = emit(nn.conv2d(x, const(24, 16, 3, 3), padding=1, out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(1, 24, 1, 1), "float32"))), half))
    gate = emit(op.astype(emit(op.sigmoid(emit(op.astype(y, "float32")))), half))
    product = op.multiply(emit(op.astype(y, "float32")), emit(op.astype(gate, "float32")))
    return emit(op.astype(emit(product), half))


def _hard_swish(emit: Any, x: Any) -> Any:
    def number(value: float) -> Any:
        return relax.const(value, x.ty.dtype)

    gate = emit(op.clip(emit(op.add(x, number(3.0))), 0.0, 6.0))
    return emit(op.divide(emit(op.multiply(x, gate)), number(6.0)))


def _hard_swish_in_float32(emit: Any, const: Any, x: Any) -> Any:
    half = str(x.ty.dtype)
    y = emit(nn.conv2d(x, const(24, 3, 3, 16), padding=1, out_dtype="float32", **NHWC))
    y = emit(op.astype(emit(op.add(y, op.astype(const(24), "float32"))), half))
    return emit(op.astype(_hard_swish(emit, emit(op.astype(y, "float32"))), half))


def _hard_swish_in_one(emit: Any, const: Any, x: Any, z: Any) -> Any:
    y = emit(op.add(emit(nn.conv2d(x, const(24, 16, 3, 3), padding=1)), const(1, 24, 1, 1)))
    return emit(op.add(_hard_swish(emit, y), z))


def _transposed(emit: Any, const: Any, x: Any) -> Any:
    y = emit(nn.conv2d_transpose(x, const(16, 6, 3, 2), strides=(2, 3), padding=(1, 0),
                                 output_padding=(1, 0), groups=4))  # fmt: skip
    y = emit(op.multiply(y, const(1, 24, 1, 1, positive=True)))
    return emit(nn.relu(emit(op.add(y, const(1, 24, 1, 1)))))


CONVOLUTIONS: dict[str, Case] = {
    "conv": conv(IMAGE, (24, 16, 3, 3), padding=1),
    "strided, dilated": conv(IMAGE, (24, 16, 3, 2), strides=(2, 1), dilation=(1, 2),
                             padding=(2, 1)),
    "grouped": conv(IMAGE, (24, 8, 3, 3), groups=2),
    "depthwise": conv(IMAGE, (16, 1, 3, 3), groups=16, padding=1),
    "NHWC": conv(PICTURE, (24, 3, 3, 16), padding=1, **NHWC),
    "NHWC HWIO": conv(PICTURE, (3, 2, 16, 24), data_layout="NHWC", kernel_layout="HWIO"),
    "NHWC grouped float16": conv(PICTURE, (24, 3, 3, 8), "float16", groups=2, padding=(1, 0),
                                 **NHWC),
    "NHWC grouped": conv(PICTURE, (24, 3, 3, 8), groups=2, strides=(1, 2), **NHWC),
    "conv1d": conv((2, 16, 11), (24, 16, 3), f=nn.conv1d, strides=2, padding=1),
    "conv3d": conv((1, 8, 4, 5, 6), (8, 8, 2, 3, 3), f=nn.conv3d, padding=(0, 1, 1)),
    "batch at run time": conv((N, 16, 9, 8), (24, 16, 3, 3), padding=1),
    "bias": chain(_channels, ops="add"),
    "relu without bias": chain(_relu, ops="relu"),
    "bias, relu": chain(_channels, _relu, ops="add relu"),
    "normalised": chain(lambda y, c: op.multiply(y, c(1, 24, 1, 1, positive=True)), _channels,
                        _relu, ops="multiply add relu"),
    "bias, relu6": chain(_channels, lambda y, c: nn.relu6(y), ops="add relu6"),
    "bias, clip": chain(_channels, lambda y, c: op.clip(y, 0.0, 0.5), ops="add clip"),
    "sigmoid": chain(_channels, lambda y, c: op.sigmoid(y), ops="add sigmoid"),
    "silu": chain(_channels, lambda y, c: nn.silu(y), ops="add silu"),
    "leaky relu": chain(_channels, lambda y, c: nn.leakyrelu(y, 0.1), ops="add leakyrelu"),
    "float16 leaky relu in float32": _in_float32(
        lambda y, c: nn.leakyrelu(y, 0.01), ops="astype astype leakyrelu astype", last=True,
        dtype="float16"),
    "residual": chain(_channels, _add, _relu, ops="add add relu", more=1),
    "residual, no bias": chain(_add, ops="add", more=1),
    "NHWC bias, relu": chain(_channels, _relu, ops="add relu", last=True),
    "NHWC residual": chain(_channels, _add, _relu, ops="add add relu", last=True, more=1),
    "weights and bias given": Case("cudnn", (IMAGE, (24, 16, 3, 3), (1, 24, 1, 1)), _given,
                                   "conv2d add relu"),
    "float16": conv(IMAGE, (24, 16, 3, 3), "float16", padding=1),
    "float16 NHWC": chain(_channels, _relu, ops="add relu", last=True, dtype="float16"),
    "float16 NHWC residual": chain(_channels, _add, _relu, ops="add add relu", last=True, more=1,
                                   dtype="float16"),
    "float16 tanh": chain(_channels, lambda y, c: op.tanh(y), ops="add tanh", dtype="float16"),
    "float16 in float32": _in_float32(ops="astype", last=True, dtype="float16"),
    "float16 normalised in float32": _in_float32(
        _normalised, ops="astype astype multiply add astype", last=False, dtype="float16"),
    "bfloat16 normalised, relu in float32": _in_float32(
        lambda y, c: nn.relu(_normalised(y, c)), ops="astype astype multiply add relu astype",
        last=True, dtype="bfloat16"),
    "float16 normalised, rounded, relu": _in_float32(
        _normalised, lambda y, c: nn.relu(y), last=True, dtype="float16",
        ops="astype astype multiply add astype astype relu astype"),
    "float16 relu in float32": _in_float32(
        lambda y, c: nn.relu(y), ops="astype astype relu astype", last=False, dtype="float16"),
    "silu, residual": chain(_channels, lambda y, c, z: nn.silu(y), _add, ops="add silu add",
                            more=1),
    "two residuals": chain(_add, _relu, _add, ops="add relu add", more=1),
    "float16 residual in float32": Case("cudnn", (IMAGE, (2, 24, 9, 8)), _bottleneck,
        "conv2d add astype astype astype add astype relu", "float16"),
    "bfloat16 residual in float32": Case("cudnn", (PICTURE, (2, 9, 8, 24)), _linear_block,
        "conv2d add astype astype astype add astype", "bfloat16"),
    "float16 silu in float32": Case("cudnn", (IMAGE,), _silu_in_float32,
        "conv2d add astype astype astype sigmoid astype astype multiply astype", "float16"),
    "hard swish, residual": Case("cudnn", (IMAGE, (2, 24, 9, 8)), _hard_swish_in_one,
                                 "conv2d add add relu6 multiply divide add"),
    "float16 hard swish in float32": Case(
        "cudnn", (PICTURE,), _hard_swish_in_float32,
        "conv2d add astype astype add relu6 multiply divide astype", "float16"),
    "transposed": Case("cudnn", (IMAGE,), _transposed, "conv2d_transpose multiply add relu"),
    "float16 transposed": Case("cudnn", (IMAGE,), lambda e, c, x: e(nn.conv2d_transpose(
        x, c(16, 24, 3, 3), strides=2, dilation=2, padding=1)), "conv2d_transpose", "float16"),
    "conv1d_transpose": Case("cudnn", ((2, 16, 11),), lambda e, c, x: e(nn.conv1d_transpose(
        x, c(16, 8, 3), strides=2, padding=1, output_padding=1)), "conv1d_transpose"),
    "conv3d_transpose": Case("cudnn", ((1, 8, 4, 5, 6),), lambda e, c, x: e(nn.conv3d_transpose(
        x, c(8, 6, 2, 3, 3), strides=(1, 2, 2))), "conv3d_transpose"),
    "bfloat16 NHWC": chain(_channels, _relu, ops="add relu", last=True, dtype="bfloat16"),
}  # fmt: skip
