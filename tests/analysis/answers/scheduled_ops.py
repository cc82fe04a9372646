"""Small legalised PrimFuncs that schedules are applied to, static and symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, tirx

from ...common.prim_funcs import lowered

nn, image = relax.op.nn, relax.op.image
Build = tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]


def _resize(x: Any) -> Any:
    return image.resize2d(x, (12, 12), method="nearest_neighbor")


def _depthwise(x: Any, w: Any) -> Any:
    return nn.conv2d(x, w, padding=(1, 1), groups=8)


#: Operator and operand shapes; a letter is a symbolic size.
OPS: dict[str, Build] = {
    "conv2d": (
        lambda x, w: nn.conv2d(x, w, strides=(2, 2), padding=(1, 1)), ((1, 4, 8, 8), (8, 4, 3, 3)),
    ),
    "depthwise_conv2d": (_depthwise, ((1, 8, 6, 6), (8, 1, 3, 3))),
    "matmul": (relax.op.matmul, ((16, 16), (16, 16))),
    "matmul_odd": (relax.op.matmul, ((9, 14), (14, 10))),
    "matmul_n": (relax.op.matmul, (("n", 16), (16, 12))),
    "matmul_nmk": (relax.op.matmul, (("n", "k"), ("k", "m"))),
    "gemv": (relax.op.matmul, ((1, 32), (32, 16))),
    "batch_matmul": (relax.op.matmul, ((2, 8, 8), (2, 8, 8))),
    "softmax": (lambda x: nn.softmax(x, axis=-1), ((4, 12),)),
    "softmax_n": (lambda x: nn.softmax(x, axis=-1), (("n", 12),)),
    "layer_norm": (lambda x, g, b: nn.layer_norm(x, g, b, axes=-1), ((4, 12), (12,), (12,))),
    "rms_norm": (lambda x, g: nn.rms_norm(x, g, axes=-1), ((4, 12), (12,))),
    "mean": (lambda x: relax.op.mean(x, axis=-1), ((6, 16),)),
    "sum_n": (lambda x: relax.op.sum(x, axis=-1), (("n", "m"),)),
    "max_all": (relax.op.max, ((6, 8),)),
    "max_pool2d": (
        lambda x: nn.max_pool2d(x, (3, 3), (2, 2), (1, 1, 1, 1)), ((1, 4, 8, 8),),
    ),
    "avg_pool2d": (lambda x: nn.avg_pool2d(x, (2, 2), (2, 2)), ((1, 4, 8, 8),)),
    "relu": (nn.relu, ((4, 18),)),
    "relu_n": (nn.relu, (("n", 18),)),
    "gelu": (nn.gelu, ((4, 18),)),
    "add": (relax.op.add, ((4, 6, 5), (5,))),
    "add_nm": (relax.op.add, (("n", "m"), ("m",))),
    "transpose": (lambda x: relax.op.permute_dims(x, (0, 2, 1)), ((2, 12, 10),)),
    "transpose_nm": (relax.op.permute_dims, (("n", "m"),)),
    "reshape": (lambda x: relax.op.reshape(x, (6, 20)), ((4, 5, 6),)),
    "concat": (lambda x, y: relax.op.concat([x, y], axis=1), ((4, 6), (4, 10))),
    "pad": (lambda x: nn.pad(x, (0, 0, 1, 2)), ((4, 9),)),
    "resize2d": (_resize, ((1, 2, 6, 6),)),
    "take": (lambda x, i: relax.op.take(x, i, axis=0), ((9, 8), (5,))),
    "argmax": (lambda x: relax.op.argmax(x, axis=1), ((6, 8),)),
}  # fmt: skip


def legal(name: str) -> Any:
    """The legalised PrimFunc of one of `OPS`."""
    op, shapes = OPS[name]
    sizes: dict[str, Any] = {}

    def dim(d: Any) -> Any:
        return sizes.setdefault(d, tirx.Var(d, "int64")) if isinstance(d, str) else d

    dtypes = ["float32", "int64" if name == "take" else "float32", "float32"]
    return lowered(op, *((tuple(map(dim, s)), t) for s, t in zip(shapes, dtypes, strict=False)))
