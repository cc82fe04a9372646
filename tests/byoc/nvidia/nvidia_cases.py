"""Small graphs that NVIDIA's libraries take whole, each as one region: for a CPU and for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax, tirx

from opinfo.analysis.composites import transposed_matmul

nn, op = relax.op.nn, relax.op
N, M, K = (tirx.Var(c, "int64") for c in "nmk")
SIZES = {"n": 3, "m": 24, "k": 40}
Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
NUMPY = {"float32": np.dtype("float32"), "float16": np.dtype("float16"),
         "bfloat16": np.dtype(ml_dtypes.bfloat16)}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``build(emit, const, *inputs)``; ``ops``: the region's, without ``relax.`` and ``nn.``."""

    backend: str
    shapes: tuple[tuple[Any, ...], ...]
    build: Build
    ops: str
    dtype: str = "float32"


def constant(rng: np.random.Generator, dtype: str, numbers: str) -> Callable[..., Any]:
    """Constants that are numbers of ``numbers``, in a tensor of ``dtype``; small halves."""

    def made(*shape: int, positive: bool = False) -> Any:
        a = rng.uniform(0.5, 1.5, shape) if positive else rng.standard_normal(shape) / 4
        return relax.const(a.astype(NUMPY[numbers]).astype(NUMPY[dtype]), dtype)

    return made


def _product(one: tuple[Any, ...], two: tuple[Any, ...], **more: Any) -> Case:
    return Case("cublaslt", (one, two), lambda e, c, x, y: e(op.matmul(x, y)), "matmul", **more)


def _dense(*after: Callable[[Any, Any], Any], ops: str, shape: Any = (16, 24),
           backend: str = "cublaslt", **more: Any) -> Case:  # fmt: skip
    def build(emit: Any, const: Any, x: Any) -> Any:
        y = emit(op.matmul(x, const(24, 32)))
        for f in after:
            y = emit(f(y, const))
        return y

    return Case(backend, (shape,), build, f"matmul {ops}".strip(), **more)


def _bias(y: Any, const: Any) -> Any:
    return op.add(y, const(32))


def _linear(emit: Any, const: Any, x: Any, w: Any, b: Any) -> Any:
    y = emit(op.matmul(x, emit(op.permute_dims(w))))
    return emit(nn.relu(emit(op.add(y, b))))


def _stored(emit: Any, const: Any, x: Any, w: Any, b: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(transposed_matmul(x, w)), b))))


def _scores(emit: Any, const: Any, q: Any, k: Any) -> Any:
    y = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    return emit(op.multiply(y, relax.const(0.125, q.ty.dtype)))


def _residual(emit: Any, const: Any, x: Any, z: Any) -> Any:
    y = emit(op.add(emit(op.matmul(x, const(24, 32))), const(32)))
    return emit(nn.relu(emit(op.add(z, y))))


def _residual_first(emit: Any, const: Any, x: Any, z: Any) -> Any:
    y = emit(op.add(emit(op.matmul(x, const(24, 32))), z))
    return emit(op.add(y, const(32)))


def _wide(emit: Any, const: Any, x: Any, y: Any) -> Any:
    return emit(op.matmul(x, y, out_dtype="float32"))


def _cast(emit: Any, const: Any, x: Any, y: Any) -> Any:
    z = emit(op.astype(emit(op.matmul(x, y)), "float32"))
    return emit(nn.relu(emit(op.add(z, op.astype(const(40), "float32")))))


PRODUCTS: dict[str, Case] = {
    "matmul": _product((16, 24), (24, 40)),
    "odd extents": _product((5, 7), (7, 3)),
    "batch": _product((3, 16, 24), (3, 24, 8)),
    "batch, one a": _product((1, 16, 24), (3, 24, 8)),
    "batch, one b": _product((2, 3, 16, 24), (24, 8)),
    "extents at run time": _product((N, 4, M), (N, M, 5)),
    "rows at run time": _dense(_bias, ops="add", shape=(N, 24)),
    "relu": _dense(lambda y, c: nn.relu(y), ops="relu"),
    "bias, relu": _dense(_bias, lambda y, c: nn.relu(y), ops="add relu"),
    "bias, gelu by tanh": _dense(_bias, lambda y, c: nn.gelu_tanh(y), ops="add gelu_tanh"),
    "gelu by tanh": _dense(lambda y, c: nn.gelu_tanh(y), ops="gelu_tanh", shape=(N, 5, 24)),
    "scaled, bias": _dense(lambda y, c: op.divide(y, relax.const(8.0)), _bias, ops="divide add"),
    "linear": Case("cublaslt", ((N, 24), (32, 24), (32,)), _linear, "permute_dims matmul add relu"),
    "scores": Case("cublaslt", ((2, 3, N, 16), (2, 3, M, 16)), _scores,
                   "permute_dims matmul multiply"),
    "residual": Case("cublaslt", ((16, 24), (16, 32)), _residual, "matmul add add relu"),
    "residual before bias": Case("cublaslt", ((2, 8, 24), (2, 8, 32)), _residual_first,
                                 "matmul add add"),
    "float16": _dense(_bias, lambda y, c: nn.relu(y), ops="add relu", dtype="float16",
                      shape=(N, 24)),
    "float16 linear": Case("cublaslt", ((N, 24), (32, 24), (32,)), _linear,
                           "permute_dims matmul add relu", "float16"),
    "float16 scores": Case("cublaslt", ((2, 3, N, 16), (2, 3, M, 16)), _scores,
                           "permute_dims matmul multiply", "float16"),
    "float16 to float32": Case("cublaslt", ((16, 24), (24, 8)), _wide, "matmul", "float16"),
    "float16, cast, bias": Case("cublaslt", ((16, 24), (24, 40)), _cast,
                                "matmul astype add relu", "float16"),
    "bfloat16 residual": Case("cublaslt", ((16, 24), (16, 32)), _residual, "matmul add add relu",
                              "bfloat16"),
    "stored transposed": Case("cublaslt", ((N, 24), (32, 24), (32,)), _stored,
                              "transposed_matmul add relu"),
    "float16 stored transposed": Case("cublaslt", ((2, N, 24), (32, 24), (32,)), _stored,
                                      "transposed_matmul add relu", "float16"),
    "bfloat16 gelu": _dense(_bias, lambda y, c: nn.gelu_tanh(y), ops="add gelu_tanh",
                            dtype="bfloat16"),
}  # fmt: skip


def _layer(emit: Any, const: Any, x: Any, z: Any) -> Any:
    """A product of halves as torch exports it: rows merged, what follows in float32."""
    half = str(x.ty.dtype)
    y = emit(op.matmul(x, const(24, 32), out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(32), "float32"))), half))
    y = emit(op.reshape(y, (2, 8, 32)))
    wide = [emit(op.astype(v, "float32")) for v in (z, y)]
    return emit(op.astype(emit(op.add(*wide)), half))


def _rounded_twice(emit: Any, const: Any, x: Any, z: Any) -> Any:
    half = str(x.ty.dtype)
    y = emit(op.astype(emit(op.matmul(x, const(24, 32), out_dtype="float32")), half))
    y = emit(op.astype(emit(op.add(emit(op.astype(y, "float32")), op.astype(const(32), "float32"))),
                       half))  # fmt: skip
    y = emit(nn.relu(emit(op.add(emit(op.astype(y, "float32")), emit(op.astype(z, "float32"))))))
    return emit(op.reshape(emit(op.astype(y, half)), (2, 2, 4, 32)))


def _gelu_in_halves(emit: Any, const: Any, x: Any) -> Any:
    """GPT-2's GELU as torch exports it: each operator in float32, its result rounded."""
    half = str(x.ty.dtype)

    def rounded(f: Any, *values: Any) -> Any:
        wide = [emit(op.astype(v, "float32")) if v.ty.dtype == half else v for v in values]
        return emit(op.astype(emit(f(*wide)), half))

    def number(value: float) -> Any:
        return relax.const(value, "float32")

    y = emit(op.matmul(x, const(24, 32), out_dtype="float32"))
    y = emit(op.astype(emit(op.add(y, op.astype(const(32), "float32"))), half))
    y = emit(op.reshape(y, (2, 8, 32)))
    cube = rounded(op.multiply, rounded(op.power, y, number(3.0)), number(0.044715))
    tanh = rounded(op.tanh, rounded(op.multiply, rounded(op.add, y, cube), number(0.7978845608)))
    return rounded(op.multiply, rounded(op.multiply, y, number(0.5)),
                   rounded(op.add, tanh, number(1.0)))  # fmt: skip


_GELU = ("matmul add astype reshape astype astype astype power multiply astype astype astype "
         "astype multiply astype astype add astype astype multiply astype astype tanh astype "
         "astype add astype astype multiply astype")  # fmt: skip
PRODUCTS |= {
    "float16 gelu in halves": Case("cublaslt", ((16, 24),), _gelu_in_halves, _GELU, "float16"),
    "float16 layer": Case("cublaslt", ((16, 24), (2, 8, 32)), _layer,
                          "matmul add astype reshape astype astype add astype", "float16"),
    "bfloat16 layer": Case("cublaslt", ((16, 24), (2, 8, 32)), _layer,
                           "matmul add astype reshape astype astype add astype", "bfloat16"),
    "float16 rounded twice": Case(
        "cublaslt", ((16, 24), (16, 32)), _rounded_twice,
        "matmul astype astype add astype astype astype add relu astype reshape", "float16"),
    "float16, one row": Case(
        "cublaslt", ((1, 24),), lambda e, c, x: e(op.astype(e(op.add(e(op.matmul(
            x, c(24, 32), out_dtype="float32")), op.astype(c(1, 32), "float32"))), x.ty.dtype)),
        "matmul add astype", "float16"),
    "reshaped residual": Case(
        "cublaslt", ((16, 24), (2, 8, 32)), lambda e, c, x, z: e(nn.relu(e(op.add(e(op.reshape(
            e(op.add(e(op.matmul(x, c(24, 32))), c(32))), (2, 8, 32))), z)))),
        "matmul add reshape add relu"),
}  # fmt: skip
IMAGE, PICTURE = (2, 16, 9, 8), (2, 9, 8, 16)
NHWC: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "OHWI"}


def _conv(x: Any, w: Any, dtype: str = "float32", f: Any = nn.conv2d, **attrs: Any) -> Case:
    name = f.__name__
    return Case("cudnn", (x,), lambda e, c, v: e(f(v, c(*w), **attrs)), name, dtype)


def _chain(*after: Build, ops: str, last: bool = False,
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
    "conv": _conv(IMAGE, (24, 16, 3, 3), padding=1),
    "strided, dilated": _conv(IMAGE, (24, 16, 3, 2), strides=(2, 1), dilation=(1, 2),
                              padding=(2, 1)),
    "grouped": _conv(IMAGE, (24, 8, 3, 3), groups=2),
    "depthwise": _conv(IMAGE, (16, 1, 3, 3), groups=16, padding=1),
    "NHWC": _conv(PICTURE, (24, 3, 3, 16), padding=1, **NHWC),
    "NHWC HWIO": _conv(PICTURE, (3, 2, 16, 24), data_layout="NHWC", kernel_layout="HWIO"),
    "NHWC grouped": _conv(PICTURE, (24, 3, 3, 8), groups=2, strides=(1, 2), **NHWC),
    "conv1d": _conv((2, 16, 11), (24, 16, 3), f=nn.conv1d, strides=2, padding=1),
    "conv3d": _conv((1, 8, 4, 5, 6), (8, 8, 2, 3, 3), f=nn.conv3d, padding=(0, 1, 1)),
    "batch at run time": _conv((N, 16, 9, 8), (24, 16, 3, 3), padding=1),
    "bias": _chain(_channels, ops="add"),
    "relu without bias": _chain(_relu, ops="relu"),
    "bias, relu": _chain(_channels, _relu, ops="add relu"),
    "normalised": _chain(lambda y, c: op.multiply(y, c(1, 24, 1, 1, positive=True)), _channels,
                         _relu, ops="multiply add relu"),
    "bias, relu6": _chain(_channels, lambda y, c: nn.relu6(y), ops="add relu6"),
    "bias, clip": _chain(_channels, lambda y, c: op.clip(y, 0.0, 0.5), ops="add clip"),
    "sigmoid": _chain(_channels, lambda y, c: op.sigmoid(y), ops="add sigmoid"),
    "silu": _chain(_channels, lambda y, c: nn.silu(y), ops="add silu"),
    "residual": _chain(_channels, _add, _relu, ops="add add relu", more=1),
    "residual, no bias": _chain(_add, ops="add", more=1),
    "NHWC bias, relu": _chain(_channels, _relu, ops="add relu", last=True),
    "NHWC residual": _chain(_channels, _add, _relu, ops="add add relu", last=True, more=1),
    "weights and bias given": Case("cudnn", (IMAGE, (24, 16, 3, 3), (1, 24, 1, 1)), _given,
                                   "conv2d add relu"),
    "float16": _conv(IMAGE, (24, 16, 3, 3), "float16", padding=1),
    "float16 NHWC": _chain(_channels, _relu, ops="add relu", last=True, dtype="float16"),
    "float16 NHWC residual": _chain(_channels, _add, _relu, ops="add add relu", last=True, more=1,
                                    dtype="float16"),
    "float16 tanh": _chain(_channels, lambda y, c: op.tanh(y), ops="add tanh", dtype="float16"),
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
    "silu, residual": _chain(_channels, lambda y, c, z: nn.silu(y), _add, ops="add silu add",
                             more=1),
    "two residuals": _chain(_add, _relu, _add, ops="add relu add", more=1),
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
    "bfloat16 NHWC": _chain(_channels, _relu, ops="add relu", last=True, dtype="bfloat16"),
}  # fmt: skip
#: What CUTLASS takes of them, and what only it takes.
BY_TEMPLATES: dict[str, Case] = {
    **{name: replace(PRODUCTS[name], backend="cutlass") for name in (
        "matmul", "odd extents", "batch", "batch, one b", "rows at run time", "bias, relu",
        "scaled, bias", "linear", "float16", "float16 linear")},
    "bias, gelu": _dense(_bias, lambda y, c: nn.gelu(y), ops="add gelu", backend="cutlass"),
    "float16 silu": _dense(_bias, lambda y, c: nn.silu(y), ops="add silu", dtype="float16",
                           backend="cutlass"),
    "float16 residual": Case("cutlass", ((16, 24), (16, 32)), lambda e, c, x, z: e(nn.relu(e(
        op.add(z, e(op.matmul(x, c(24, 32))))))), "matmul add relu", "float16"),
    "bfloat16 sigmoid": _dense(_bias, lambda y, c: op.sigmoid(y), ops="add sigmoid",
                               dtype="bfloat16", shape=(3, N, 24), backend="cutlass"),
}  # fmt: skip
#: Network definitions for TensorRT.
NETWORKS: dict[str, Case] = {
    **{name: replace(PRODUCTS[name], backend="tensorrt") for name in (
        "matmul", "batch, one b", "bias, relu", "bias, gelu by tanh", "float16", "scaled, bias")},
    **{name: replace(CONVOLUTIONS[name], backend="tensorrt") for name in (
        "strided, dilated", "grouped", "conv3d", "normalised", "bias, relu6", "bias, clip", "silu",
        "residual", "float16")},
    "padded on one side": replace(_conv(IMAGE, (24, 16, 3, 3), padding=(0, 1, 2, 1)),
                                  backend="tensorrt"),
    "from a literal": replace(_chain(lambda y, c: op.subtract(relax.const(1.0), y), lambda y, c:
                                     op.exp(y), ops="subtract exp"), backend="tensorrt"),
    "leakyrelu": replace(_chain(lambda y, c: nn.leakyrelu(y, 0.1), ops="leakyrelu"),
                         backend="tensorrt"),
    "max_pool": Case("tensorrt", (IMAGE,), lambda e, c, x: e(nn.max_pool2d(
        x, (3, 2), (2, 2), (1, 0, 1, 1))), "max_pool2d"),
    "avg_pool with padding": Case("tensorrt", (IMAGE,), lambda e, c, x: e(nn.avg_pool2d(
        x, (3, 3), (2, 2), (1, 1, 1, 1), count_include_pad=True)), "avg_pool2d"),
    "softmax": Case("tensorrt", ((2, 5, 4),), lambda e, c, x: e(nn.softmax(x, 1)), "softmax"),
}  # fmt: skip
CASES = {"cublaslt": PRODUCTS, "cudnn": CONVOLUTIONS, "cutlass": BY_TEMPLATES,
         "tensorrt": NETWORKS}  # fmt: skip


def module(cases: dict[str, Case], exact: bool = False) -> Any:
    """All cases in one function: an input for each shape, a tuple of the results.

    ``exact``: the same numbers, computed in float32.
    """
    rng = np.random.default_rng(0)
    types = {name: "float32" if exact else c.dtype for name, c in cases.items()}
    given = {name: [relax.Var(f"x{k}_{j}", relax.TensorType(s, types[name]))
                    for j, s in enumerate(c.shapes)]
             for k, (name, c) in enumerate(cases.items())}  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given.values() for v in vs]):
        with bb.dataflow():
            made = [c.build(bb.emit, constant(rng, types[name], c.dtype), *given[name])
                    for name, c in cases.items()]  # fmt: skip
            out = bb.emit_output(relax.Tuple(made))
        bb.emit_func_output(out)
    return bb.get()


def inputs(cases: dict[str, Case], exact: bool = False) -> list[list[Array]]:
    """For each case."""
    rng = np.random.default_rng(1)
    out = []
    for c in cases.values():
        sized = [[e if isinstance(e, int) else SIZES[e.name] for e in s] for s in c.shapes]
        arrays = [rng.standard_normal(s).astype(NUMPY[c.dtype]) for s in sized]
        out.append([a.astype("float32") for a in arrays] if exact else arrays)
    return out
