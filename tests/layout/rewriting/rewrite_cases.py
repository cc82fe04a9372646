"""Operators, and the layouts that they are rewritten to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, tirx

from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.rewrite import Rewritten, rewrite

OPS = relax.op


def layouts_of(texts: str) -> list[Layout | None]:
    """One a word; ``-`` leaves the parameter, ``?`` after a layout promises no pad value."""
    return [None if t == "-" else _layout(t.rstrip("?"), "?" in t) for t in texts.split()]


def _layout(text: str, free: bool) -> Layout:
    axes = "".join(sorted(c for c in text if c.isupper()))
    logical = axes if "A" in axes else ""
    return Layout.parse(text, logical, pad_value=None if free else 0)


def rewritten(func: Any, texts: str, **how: Any) -> Rewritten:
    found = rewrite(func, layouts_of(texts), **how)
    assert isinstance(found, Rewritten), found
    return found


N = tirx.Var("n", "int64")
CONV = ((2, 8, 6, 6), (4, 8, 3, 3))
#: Ops over NCHW, their buffers' layouts, and the op that the result is without any layout undone.
DIRECT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str, dict[str, Any]]] = {
    "conv2d OHWI": (
        lambda x, w: OPS.nn.conv2d(x, w, padding=1), CONV, "NHWC OHWI NHWC",
        "relax.nn.conv2d", {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"},
    ),
    "conv2d HWIO": (
        lambda x, w: OPS.nn.conv2d(x, w, strides=2), CONV, "NHWC HWIO NHWC",
        "relax.nn.conv2d", {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": [2, 2]},
    ),
    "symbolic batch": (
        lambda x, w: OPS.nn.conv2d(x, w, padding=1), ((N, 8, 6, 6), CONV[1]), "NHWC OHWI NHWC",
        "relax.nn.conv2d", {"data_layout": "NHWC"},
    ),
    "grouped": (
        lambda x, w: OPS.nn.conv2d(x, w, groups=4), ((2, 8, 6, 6), (8, 2, 3, 3)), "NHWC HWIO NHWC",
        "relax.nn.conv2d", {"data_layout": "NHWC", "groups": 4},
    ),
    "max_pool2d": (
        lambda x: OPS.nn.max_pool2d(x, (2, 2), (2, 2), padding=1), ((2, 4, 6, 6),), "NHWC NHWC",
        "relax.nn.max_pool2d", {"layout": "NHWC"},
    ),
    "avg_pool2d": (
        lambda x: OPS.nn.avg_pool2d(x, (3, 3), padding=1), ((2, 4, 6, 6),), "NHWC NHWC",
        "relax.nn.avg_pool2d", {"layout": "NHWC"},
    ),
    "softmax": (
        lambda x: OPS.nn.softmax(x, axis=1), ((2, 4, 3, 3),), "NHWC NHWC",
        "relax.nn.softmax", {"axis": 3},
    ),
    "layer_norm": (
        lambda x, g, b: OPS.nn.layer_norm(x, g, b, axes=[2, 3]), ((2, 4, 3, 5), (3, 5), (3, 5)),
        "NHWC - - NHWC", "relax.nn.layer_norm", {"axes": [1, 2]},
    ),
    "batch_norm": (
        lambda *a: OPS.nn.batch_norm(*a, axis=1, training=False), ((2, 4, 3, 5), *((4,),) * 4),
        "NHWC - - - - NHWC - -", "relax.nn.batch_norm", {"axis": 3},
    ),
    "mean": (
        lambda x: OPS.mean(x, axis=[2, 3], keepdims=True), ((2, 4, 3, 5),), "NHWC NHWC",
        "relax.mean", {"axis": [1, 2]},
    ),
    "concat": (
        lambda x, y: OPS.concat([x, y], axis=1), ((2, 4, 3, 5), (2, 2, 3, 5)), "NHWC NHWC NHWC",
        "relax.concat", {"axis": 3},
    ),
    "split": (
        lambda x: OPS.split(x, 2, axis=1), ((2, 4, 3, 5),), "NHWC NHWC NHWC",
        "relax.split", {"axis": 3},
    ),
    "strided_slice": (
        lambda x: OPS.strided_slice(x, [1], [1], [4], [2]), ((2, 5, 3, 3),), "NHWC NHWC",
        "relax.strided_slice", {"axes": [3]},
    ),
    "pad": (
        lambda x: OPS.nn.pad(x, [0, 0, 1, 0, 0, 0, 0, 2]), ((2, 4, 3, 3),), "NHWC NHWC",
        "relax.nn.pad", {"pad_width": [0, 0, 0, 0, 0, 2, 1, 0]},
    ),
    "resize2d": (
        lambda x: OPS.image.resize2d(x, (6, 10)), ((2, 4, 3, 5),), "NHWC NHWC",
        "relax.image.resize2d", {"layout": "NHWC"},
    ),
    "permute_dims": (
        lambda x: OPS.permute_dims(x, (0, 1, 3, 2)), ((2, 4, 3, 5),), "NHWC NHWC",
        "relax.permute_dims", {"axes": [0, 2, 1, 3]},
    ),
    "matmul": (
        OPS.matmul, ((3, 4), (4, 5)), "BA BA BA", "relax.matmul", {},
    ),
    "add": (OPS.add, ((2, 4, 3, 5), (4, 1, 1)), "NHWC CWN NHWC", "relax.add", {}),
}  # fmt: skip
PACKED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "conv2d": (lambda x, w: OPS.nn.conv2d(x, w, padding=1), CONV, "NCHW4c OIHW4i4o NCHW4c"),
    "first conv2d": (
        lambda x, w: OPS.nn.conv2d(x, w, padding=1), ((2, 3, 6, 6), (6, 3, 3, 3)),
        "NCHW4c OIHW4i4o NCHW4c",
    ),
    "nothing promised": (
        lambda x, w: OPS.nn.conv2d(x, w, padding=1), ((2, 3, 6, 6), (6, 3, 3, 3)),
        "NCHW4c? OIHW4i4o? NCHW4c?",
    ),
    "depthwise": (
        lambda x, w: OPS.nn.conv2d(x, w, padding=1, groups=8), ((N, 8, 6, 6), (8, 1, 3, 3)),
        "NCHW4c OIHW4o NCHW4c",
    ),
    "float16": (
        OPS.nn.conv2d, (((2, 8, 6, 6), "float16"), ((4, 8, 3, 3), "float16")),
        "NCHW8c OIHW8i4o NCHW4c",
    ),
    "int8": (
        lambda x, w: OPS.nn.conv2d(x, w, out_dtype="int32"),
        (((2, 6, 6, 6), "int8"), ((4, 6, 3, 3), "int8")), "NCHW4c OIHW4i NCHW4c?",
    ),
    "max_pool2d": (
        lambda x: OPS.nn.max_pool2d(x, (2, 2), (2, 2)), ((2, 6, 6, 6),), "NCHW4c NCHW4c",
    ),
    "softmax over a packed axis": (
        lambda x: OPS.nn.softmax(x, axis=1), ((2, 6, 3, 3),), "NCHW4c NCHW4c",
    ),
    "argmax": (lambda x: OPS.argmax(x, axis=1), ((2, 6, 3, 3),), "NCHW4c -"),
    "split across tiles": (
        lambda x: OPS.split(x, [3], axis=1), ((2, 8, 3, 3),), "NCHW4c NCHW4c NCHW4c?",
    ),
    "concat across tiles": (
        lambda x, y: OPS.concat([x, y], axis=1), ((2, 3, 3, 3), (2, 6, 3, 3)),
        "NCHW4c NCHW4c NCHW4c",
    ),
    "take": (
        lambda x, i: OPS.take(x, i, axis=1), ((2, 6, 3, 3), ((4,), "int64")), "NCHW4c - NHWC",
    ),
    "take of padding": (
        lambda x, i: OPS.take(x, i, axis=1), ((2, 6, 3, 3), ((3,), "int64")), "NCHW4c - NCHW4c?",
    ),
    "integer division": (
        OPS.floor_divide, (((2, 6), "int32"), ((6,), "int32")), "AB4b? A4a? AB4b?",
    ),
    "bias beyond its end": (OPS.add, ((2, 6, 3, 3), (6, 1, 1)), "NCHW4c? - NCHW4c?"),
    "batch_norm in training": (
        lambda *a: OPS.nn.batch_norm(*a, axis=1), ((2, 6, 3, 5), *((6,),) * 4),
        "NCHW4c - A4a - - NCHW4c - -",
    ),
}  # fmt: skip
