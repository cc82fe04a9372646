"""Small operators of every family, to make mutants of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax

OPS = relax.op


@dataclass(frozen=True)
class Whole:
    """An operand of whole numbers, drawn from ``low`` up to but not ``high``."""

    shape: tuple[int, ...]
    high: int
    dtype: str = "int64"
    low: int = 0


#: A shape stands for a float32 operand.
Operand = tuple[int, ...] | Whole


@dataclass(frozen=True)
class Case:
    """An operator and its operands."""

    family: str
    build: Callable[..., Any]
    operands: tuple[Operand, ...]


def _binary(family: str, build: Any) -> Case:
    return Case(family, build, ((2, 3), (2, 1)))


def _unary(family: str, build: Any) -> Case:
    return Case(family, build, ((2, 3),))


def _pooled(build: Any, *args: Any, shape: tuple[int, ...], **attrs: Any) -> Case:
    return Case("pooling", lambda x: build(x, *args, **attrs), (shape,))


CASES: dict[str, Case] = {
    # ------------------------------------------------------------------ windows
    "conv1d": Case(
        "convolution",
        lambda x, w: OPS.nn.conv1d(x, w, strides=2, padding=(1, 1), dilation=2),
        ((1, 2, 7), (2, 2, 3)),
    ),
    "conv2d": Case(
        "convolution",
        lambda x, w: OPS.nn.conv2d(x, w, strides=(2, 1), padding=(1, 1, 0, 1)),
        ((1, 2, 4, 3), (2, 2, 3, 2)),
    ),
    "conv2d_nhwc": Case(
        "convolution",
        lambda x, w: OPS.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        ((1, 3, 4, 2), (2, 2, 2, 3)),
    ),
    "conv2d_grouped": Case(
        "grouped convolution",
        lambda x, w: OPS.nn.conv2d(x, w, groups=2, dilation=(2, 1)),
        ((1, 4, 4, 3), (4, 2, 2, 2)),
    ),
    "conv2d_depthwise": Case(
        "depthwise convolution",
        lambda x, w: OPS.nn.conv2d(x, w, groups=3, strides=(1, 2), padding=1),
        ((1, 3, 3, 4), (3, 1, 3, 2)),
    ),
    "conv3d": Case(
        "convolution",
        lambda x, w: OPS.nn.conv3d(x, w, padding=(1, 0, 0)),
        ((1, 2, 2, 3, 3), (2, 2, 2, 2, 2)),
    ),
    "conv1d_transpose": Case(
        "transposed convolution",
        lambda x, w: OPS.nn.conv1d_transpose(x, w, strides=2, padding=(1, 1), output_padding=1),
        ((1, 2, 4), (2, 2, 3)),
    ),
    "conv2d_transpose": Case(
        "transposed convolution",
        lambda x, w: OPS.nn.conv2d_transpose(x, w, strides=(2, 1), padding=(1, 0)),
        ((1, 2, 2, 3), (2, 2, 3, 2)),
    ),
    "conv3d_transpose": Case(
        "transposed convolution",
        lambda x, w: OPS.nn.conv3d_transpose(x, w, strides=(1, 2, 1)),
        ((1, 2, 2, 2, 2), (2, 1, 1, 2, 2)),
    ),
    "max_pool1d": _pooled(OPS.nn.max_pool1d, 3, strides=2, padding=1, shape=(2, 2, 7)),
    "max_pool2d": _pooled(
        OPS.nn.max_pool2d, (3, 2), strides=(2, 1), padding=(1, 0), shape=(1, 2, 5, 4)
    ),
    "avg_pool1d": _pooled(
        OPS.nn.avg_pool1d, 3, strides=2, padding=1, count_include_pad=True, shape=(2, 2, 7)
    ),
    "avg_pool2d": _pooled(
        OPS.nn.avg_pool2d, (2, 2), strides=(2, 2), padding=(1, 1), shape=(1, 2, 4, 4)
    ),
    "max_pool3d": _pooled(OPS.nn.max_pool3d, (1, 2, 2), shape=(1, 2, 2, 3, 3)),
    "adaptive_avg_pool2d": _pooled(OPS.nn.adaptive_avg_pool2d, (2, 3), shape=(1, 2, 5, 4)),
    # ------------------------------------------------------------------ contractions
    "matmul": Case("matmul", OPS.matmul, ((2, 3, 4), (4, 5))),
    "matmul_batched": Case("matmul", OPS.matmul, ((2, 3, 2), (2, 2, 4))),
    "outer": Case("matmul", OPS.outer, ((3,), (4,))),
    "einsum": Case(
        "einsum", lambda a, b: OPS.einsum((a, b), "bij,bkj->bik"), ((2, 3, 4), (2, 5, 4))
    ),
    "einsum_rows": Case("einsum", lambda a, b: OPS.einsum((a, b), "ij,ij->i"), ((3, 4), (3, 4))),
    "attention": Case("attention", OPS.nn.attention, ((1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4))),
    "attention_causal": Case(
        "attention",
        lambda q, k, v: OPS.nn.attention(q, k, v, causal_mask="TopLeft"),
        ((1, 3, 2, 2), (1, 4, 2, 2), (1, 4, 2, 2)),
    ),
    # ------------------------------------------------------------------ norms
    "batch_norm": Case(
        "batch_norm",
        lambda *a: OPS.nn.batch_norm(*a, axis=1, epsilon=1e-2, training=False)[0],
        ((1, 3, 2, 2), (3,), (3,), (3,), (3,)),
    ),
    "layer_norm": Case(
        "layer_norm",
        lambda x, g, b: OPS.nn.layer_norm(x, g, b, axes=-1, epsilon=1e-3),
        ((2, 6), (6,), (6,)),
    ),
    "group_norm": Case(
        "group_norm",
        lambda x, g, b: OPS.nn.group_norm(x, g, b, 2, 1, [2], epsilon=1e-2),
        ((2, 4, 3), (4,), (4,)),
    ),
    "instance_norm": Case(
        "group_norm",
        lambda x, g, b: OPS.nn.instance_norm(x, g, b, 1, [2], epsilon=1e-2),
        ((2, 3, 4), (3,), (3,)),
    ),
    "rms_norm": Case("rms_norm", lambda x, w: OPS.nn.rms_norm(x, w, -1, 1e-2), ((3, 6), (6,))),
    "softmax": Case("softmax", lambda x: OPS.nn.softmax(x, axis=1), ((2, 3, 4),)),
    "log_softmax": Case("softmax", lambda x: OPS.nn.log_softmax(x, axis=-1), ((3, 5),)),
    # ------------------------------------------------------------------ reductions
    "sum": Case("reduction", lambda x: OPS.sum(x, axis=[0, 2], keepdims=True), ((3, 4, 2),)),
    "max": Case("reduction", lambda x: OPS.max(x, axis=1), ((3, 5),)),
    "min": Case("reduction", lambda x: OPS.min(x, axis=0), ((3, 4),)),
    "prod": Case("reduction", lambda x: OPS.prod(x, axis=0), ((3, 4),)),
    "mean": Case("reduction", lambda x: OPS.mean(x, axis=1), ((2, 5, 3),)),
    "variance": Case("reduction", lambda x: OPS.variance(x, axis=0), ((4, 3),)),
    "std": Case("reduction", lambda x: OPS.std(x, axis=1), ((2, 4),)),
    "argmax": Case("argmax", lambda x: OPS.argmax(x, axis=1), ((3, 5),)),
    "argmin": Case("argmax", lambda x: OPS.argmin(x, axis=0), ((4, 3),)),
    "cross_entropy": Case("loss", OPS.nn.cross_entropy_with_logits, ((3, 5), (3, 5))),
    "nll_loss": Case(
        "loss",
        lambda x, t, w: OPS.nn.nll_loss(x, t, w, reduction="mean", ignore_index=1),
        ((3, 4), Whole((3,), 4), (4,)),
    ),
    "nll_loss_none": Case(
        "loss",
        lambda x, t, w: OPS.nn.nll_loss(x, t, w, reduction="none", ignore_index=2),
        ((2, 4, 3), Whole((2, 3), 4), (4,)),
    ),
    # ------------------------------------------------------------------ element by element
    "relu": _unary("activation", OPS.nn.relu),
    "gelu": _unary("activation", OPS.nn.gelu),
    "gelu_tanh": _unary("activation", OPS.nn.gelu_tanh),
    "silu": _unary("activation", OPS.nn.silu),
    "selu": _unary("activation", OPS.nn.selu),
    "softplus": _unary("activation", lambda x: OPS.nn.softplus(x, 1.5, 2.0)),
    "leakyrelu": _unary("activation", lambda x: OPS.nn.leakyrelu(x, 0.1)),
    "prelu": Case("activation", OPS.nn.prelu, ((2, 3), (3,))),
    "clip": _unary("unary", lambda x: OPS.clip(x, 0.7, 1.5)),
    "tanh": _unary("unary", OPS.tanh),
    "abs": _unary("unary", OPS.abs),
    "exp": _unary("unary", OPS.exp),
    "sqrt": _unary("unary", OPS.sqrt),
    "rsqrt": _unary("unary", OPS.rsqrt),
    "sigmoid": _unary("unary", OPS.sigmoid),
    "square": _unary("unary", OPS.square),
    "sign": _unary("unary", OPS.sign),
    "round": _unary("unary", OPS.round),
    "negative": _unary("unary", OPS.negative),
    "add": _binary("binary", OPS.add),
    "subtract": _binary("binary", OPS.subtract),
    "multiply": _binary("binary", OPS.multiply),
    "divide": _binary("binary", OPS.divide),
    "maximum": _binary("binary", OPS.maximum),
    "power": _binary("binary", OPS.power),
    "floor_divide": _binary("binary", OPS.floor_divide),
    "less": _binary("binary", OPS.less),
    "where": Case("where", OPS.where, (Whole((2, 3), 2, "bool"), (2, 3), (1, 3))),
    "quantize": Case(
        "quantize",
        lambda x, s, z: OPS.quantize(x, s, z, axis=1),
        ((2, 3), (3,), Whole((3,), 5, "int8", -5)),
    ),
    "dequantize": Case(
        "quantize",
        lambda x, s, z: OPS.dequantize(x, s, z, axis=0),
        (Whole((3, 2), 99, "int8", -99), (3,), Whole((3,), 5, "int8", -5)),
    ),
    # ------------------------------------------------------------------ moves
    "reshape": Case("reshape", lambda x: OPS.reshape(x, (4, 6)), ((2, 3, 4),)),
    "flatten": Case("reshape", OPS.flatten, ((2, 3, 2),)),
    "permute_dims": Case("permute_dims", lambda x: OPS.permute_dims(x, [2, 0, 1]), ((2, 3, 4),)),
    "broadcast_to": Case("broadcast_to", lambda x: OPS.broadcast_to(x, (2, 3, 4)), ((3, 1),)),
    "concat": Case("concat", lambda a, b: OPS.concat([a, b], axis=1), ((2, 3), (2, 2))),
    "stack": Case("concat", lambda a, b: OPS.stack([a, b], axis=1), ((2, 3), (2, 3))),
    "split": Case("split", lambda x: OPS.split(x, [2], axis=0), ((5, 3),)),
    "strided_slice": Case(
        "slice",
        lambda x: OPS.strided_slice(x, axes=[0, 1], begin=[1, 0], end=[6, 4], strides=[2, 1]),
        ((7, 4),),
    ),
    "slice_scatter": Case(
        "slice", lambda x, s: OPS.slice_scatter(x, s, 1, 6, 2, axis=0), ((6, 2), (3, 2))
    ),
    "take": Case("take", lambda x, i: OPS.take(x, i, axis=0), ((4, 3), Whole((2,), 4))),
    "take_clip": Case(
        "take", lambda x, i: OPS.take(x, i, axis=1, mode="clip"), ((2, 4), Whole((3,), 9, low=-5))
    ),
    "gather_elements": Case(
        "gather", lambda x, i: OPS.gather_elements(x, i, axis=1), ((3, 4), Whole((3, 2), 4))
    ),
    "gather_nd": Case("gather", lambda x, i: OPS.gather_nd(x, i), ((3, 3), Whole((4, 2), 3))),
    "scatter_elements": Case(
        "scatter",
        lambda x, i, u: OPS.scatter_elements(x, i, u, axis=0, reduction="add"),
        ((4, 3), Whole((2, 3), 4), (2, 3)),
    ),
    "scatter_nd": Case(
        "scatter",
        lambda x, i, u: OPS.scatter_nd(x, i, u, "add"),
        ((4, 3), Whole((2, 1), 4), (2, 3)),
    ),
    "pad": Case("pad", lambda x: OPS.nn.pad(x, [0, 0, 1, 2], pad_value=0.5), ((3, 4),)),
    "pad_reflect": Case(
        "pad", lambda x: OPS.nn.pad(x, [0, 0, 1, 2], pad_mode="reflect"), ((2, 4),)
    ),
    "tile": Case("tile", lambda x: OPS.tile(x, (2, 3)), ((2, 3),)),
    "repeat": Case("repeat", lambda x: OPS.repeat(x, 2, axis=0), ((3, 2),)),
    "flip": Case("flip", lambda x: OPS.flip(x, axis=1), ((2, 5),)),
    "tril": Case("triangle", lambda x: OPS.tril(x, 1), ((4, 4),)),
    "one_hot": Case(
        "one_hot",
        lambda i: OPS.one_hot(i, relax.prim_value(1), relax.prim_value(0), 4, axis=0),
        (Whole((3,), 4),),
    ),
    "cumsum": Case("scan", lambda x: OPS.cumsum(x, axis=1), ((2, 4),)),
    "cumprod": Case("scan", lambda x: OPS.cumprod(x, axis=0, exclusive=True), ((4, 2),)),
    # ------------------------------------------------------------------ images
    "resize2d": Case(
        "resize", lambda x: OPS.image.resize2d(x, (4, 6), method="linear"), ((1, 1, 3, 4),)
    ),
    "resize2d_nearest": Case(
        "resize",
        lambda x: OPS.image.resize2d(x, (5, 3), method="nearest_neighbor", rounding_method="floor"),
        ((1, 2, 3, 4),),
    ),
    "resize3d": Case(
        "resize",
        lambda x: OPS.image.resize3d(x, (3, 2, 3), method="nearest_neighbor"),
        ((1, 1, 2, 3, 2),),
    ),
    "grid_sample": Case("grid_sample", OPS.image.grid_sample, ((1, 2, 3, 4), (1, 2, 2, 2))),
    "affine_grid": Case("grid_sample", lambda x: OPS.image.affine_grid(x, (2, 3)), ((2, 2, 3),)),
    "roi_pool": Case(
        "roi_pool",
        lambda x, r: OPS.vision.roi_pool(x, r, (2, 2), 0.5),
        ((2, 1, 4, 4), Whole((2, 5), 2, "float32")),
    ),
}
