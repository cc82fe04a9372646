"""Operators that ONNX has and that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from ....layout.nets import const
from .onnx_case import IMAGE, ROUNDED, M, N, OnnxCase, call, from_bytes

op = relax.op


def _from_the_end(e: Any, r: Any, x: Any, i: Any) -> Any:
    """Indices from -2 to 1, of which negative ones count from the end."""
    i = e(op.subtract(i, relax.const(2, "int32")))
    last = e(op.add(i, relax.const(5, "int32")))
    return e(op.take(x, e(op.where(e(op.less(i, relax.const(0, "int32"))), last, i)), 1))


def _split(e: Any, r: Any, x: Any) -> Any:
    parts = e(op.split(x, 2, 1))
    return e(op.subtract(*(e(relax.TupleGetItem(parts, k)) for k in range(2))))


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
    "take, wrapped": OnnxCase(from_bytes(lambda x, i: op.take(x, i, 1, "wrap"), "int64"),
                              ((2, 5), ((4,), "int8")), below=9),
    "take, wrapped, large": OnnxCase(call(op.take, 1, "wrap"), ((2, 5), ((4,), "int32")),
                                     refused=ROUNDED),
    "take, from the end": OnnxCase(_from_the_end, ((2, 5), ((4,), "int32"))),
    "gather_elements": OnnxCase(call(op.gather_elements, 1), ((4, 5), ((4, 2), "int64"))),
    "gather_nd": OnnxCase(call(op.gather_nd), ((4, 5, 3), ((2, 2), "int64"))),
    "one_hot": OnnxCase(from_bytes(lambda i: op.one_hot(
        i, *(tvm.tirx.FloatImm("float32", v) for v in (2.0, -1.0)), 5, -1), "int64"),
        (((2, 3), "int8"),)),
}  # fmt: skip
