"""Reductions, norms and products that ONNX has."""

from __future__ import annotations

from typing import Any

from tvm import relax

from opinfo.analysis.composites.products import transposed_matmul

from ....layout.nets import const
from .onnx_case import IMAGE, INFINITIES, SUMS, Build, N, OnnxCase, call

nn, op = relax.op.nn, relax.op


def _norm(f: Any, *shape: int, **attrs: Any) -> Build:
    return lambda e, r, x: e(f(x, const(r, *shape), const(r, *shape), **attrs))


def _any(e: Any, r: Any, x: Any) -> Any:
    """Whether there is a true element, as exporters write it."""
    return e(op.astype(e(op.max(e(op.astype(x, "int8")), [2, 3])), "bool"))


REDUCED: dict[str, OnnxCase] = {
    "mean": OnnxCase(call(op.mean, [1, 3], keepdims=True), (IMAGE,)),
    "mean of an image": OnnxCase(call(op.mean, [2, 3]), (IMAGE,)),
    "max of an image": OnnxCase(call(op.max, [2, 3], keepdims=True), (IMAGE,)),
    **{n: OnnxCase(call(getattr(op, n), [0, 2]), (IMAGE,))
       for n in ("sum", "max", "prod", "variance", "std")},
    "min": OnnxCase(call(op.min, [0, 2]), (IMAGE,), refused=INFINITIES),
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
