"""Whether an answer about a mutant of an operator computes what the mutant computes.

The truth is the interpreter's, on random inputs: whatever :func:`op_info` answers for a mutant must
compute what the mutant computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.build import rebuild
from opinfo.analysis.comprehension import Lifted
from opinfo.analysis.legalise import lowered
from opinfo.analysis.lift import lift
from opinfo.analysis.op_info import Proposal
from opinfo.analysis.term import Tensor

from .interpret import Array, Undefined, interpret
from .mutants import parsed
from .relaid.check import view

OPS = relax.op

#: Operator, shapes of its operands, the least number of different mutants among a sample.
CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...], int]] = {
    "conv2d": (
        lambda x, w: OPS.nn.conv2d(x, w, strides=(2, 1), padding=(1, 1, 0, 1)),
        ((1, 2, 5, 4), (3, 2, 3, 2)),
        15,
    ),
    "conv2d_grouped": (
        lambda x, w: OPS.nn.conv2d(x, w, groups=2, dilation=(2, 1)),
        ((1, 4, 5, 4), (4, 2, 2, 2)),
        10,
    ),
    "conv2d_transpose": (
        lambda x, w: OPS.nn.conv2d_transpose(x, w, strides=(2, 2), padding=(1, 1)),
        ((1, 2, 3, 3), (2, 2, 3, 3)),
        15,
    ),
    "max_pool2d": (
        lambda x: OPS.nn.max_pool2d(x, (3, 2), strides=(2, 1), padding=(1, 0)),
        ((1, 2, 5, 4),),
        10,
    ),
    "avg_pool2d": (
        lambda x: OPS.nn.avg_pool2d(x, (2, 2), strides=(2, 2), padding=(1, 1)),
        ((1, 2, 4, 4),),
        10,
    ),
    "matmul": (OPS.matmul, ((2, 3, 4), (4, 5)), 6),
    "softmax": (lambda x: OPS.nn.softmax(x, axis=1), ((2, 3, 4),), 8),
    "layer_norm": (
        lambda x, g, b: OPS.nn.layer_norm(x, g, b, axes=-1, epsilon=1e-3),
        ((2, 6), (6,), (6,)),
        10,
    ),
    "batch_norm": (
        lambda *a: OPS.nn.batch_norm(*a, axis=1, epsilon=1e-2, training=False)[0],
        ((1, 3, 2, 2), (3,), (3,), (3,), (3,)),
        10,
    ),
    "mean": (lambda x: OPS.mean(x, axis=1), ((2, 5, 3),), 5),
    "variance": (lambda x: OPS.variance(x, axis=0), ((4, 3),), 8),
    "subtract": (OPS.subtract, ((2, 3), (2, 1)), 4),
    "strided_slice": (
        lambda x: OPS.strided_slice(x, axes=[0, 1], begin=[1, 0], end=[6, 4], strides=[2, 1]),
        ((7, 4),),
        5,
    ),
    "concat": (lambda a, b: OPS.concat([a, b], axis=1), ((2, 3), (2, 2)), 6),
    "reshape": (lambda x: OPS.reshape(x, (4, 6)), ((2, 3, 4),), 8),
    "pad": (lambda x: OPS.nn.pad(x, [0, 0, 1, 2], pad_value=0.5), ((3, 4),), 8),
    "gelu": (OPS.nn.gelu, ((2, 3),), 5),
    "conv1d": (
        lambda x, w: OPS.nn.conv1d(x, w, strides=2, padding=(1, 1), dilation=2),
        ((1, 2, 9), (3, 2, 3)),
        10,
    ),
    "conv3d": (
        lambda x, w: OPS.nn.conv3d(x, w, padding=(1, 0, 0)),
        ((1, 2, 2, 3, 3), (2, 2, 2, 2, 2)),
        10,
    ),
    "conv1d_transpose": (
        lambda x, w: OPS.nn.conv1d_transpose(x, w, strides=2, padding=(1, 1), output_padding=1),
        ((1, 2, 4), (2, 3, 3)),
        10,
    ),
    "max_pool1d": (lambda x: OPS.nn.max_pool1d(x, 3, strides=2, padding=1), ((2, 2, 7),), 5),
    "adaptive_pool": (lambda x: OPS.nn.adaptive_avg_pool2d(x, (2, 3)), ((1, 2, 5, 4),), 5),
    "einsum": (
        lambda a, b: OPS.einsum((a, b), "bij,bkj->bik"),
        ((2, 3, 4), (2, 5, 4)),
        6,
    ),
    "attention": (OPS.nn.attention, ((1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4)), 8),
    "group_norm": (
        lambda x, g, b: OPS.nn.group_norm(x, g, b, 2, 1, [2], epsilon=1e-2),
        ((2, 4, 3), (4,), (4,)),
        8,
    ),
    "rms_norm": (lambda x, w: OPS.nn.rms_norm(x, w, -1, 1e-2), ((3, 6), (6,)), 8),
    "log_softmax": (lambda x: OPS.nn.log_softmax(x, axis=-1), ((3, 5),), 8),
    "cross_entropy": (OPS.nn.cross_entropy_with_logits, ((3, 5), (3, 5)), 3),
    "sum": (lambda x: OPS.sum(x, axis=[0, 2], keepdims=True), ((3, 4, 2),), 4),
    "max": (lambda x: OPS.max(x, axis=1), ((3, 5),), 4),
    "prod": (lambda x: OPS.prod(x, axis=0), ((3, 4),), 4),
    "argmax": (lambda x: OPS.argmax(x, axis=1), ((3, 5),), 3),
    "silu": (OPS.nn.silu, ((2, 3),), 3),
    "leakyrelu": (lambda x: OPS.nn.leakyrelu(x, 0.1), ((2, 3),), 3),
    "clip": (lambda x: OPS.clip(x, 0.7, 1.5), ((2, 5),), 3),
    "tanh": (OPS.tanh, ((2, 3),), 2),
    "abs": (OPS.abs, ((2, 3),), 1),
    "divide": (OPS.divide, ((2, 3), (3,)), 3),
    "maximum": (OPS.maximum, ((2, 3), (2, 3)), 2),
    "permute_dims": (lambda x: OPS.permute_dims(x, [2, 0, 1]), ((2, 3, 4),), 3),
    "broadcast_to": (lambda x: OPS.broadcast_to(x, (2, 3, 4)), ((3, 1),), 2),
    "split": (lambda x: OPS.split(x, [2], axis=0), ((5, 3),), 3),
    "stack": (lambda a, b: OPS.stack([a, b], axis=1), ((2, 3), (2, 3)), 4),
    "tile": (lambda x: OPS.tile(x, (2, 3)), ((2, 3),), 4),
    "repeat": (lambda x: OPS.repeat(x, 2, axis=0), ((3, 2),), 3),
    "flip": (lambda x: OPS.flip(x, axis=1), ((2, 5),), 3),
    "tril": (lambda x: OPS.tril(x, 1), ((4, 4),), 4),
    "resize2d": (
        lambda x: OPS.image.resize2d(x, (4, 6), method="linear"),
        ((1, 1, 3, 4),),
        8,
    ),
    "cumsum": (lambda x: OPS.cumsum(x, axis=1), ((2, 4),), 10),
}


def legalised(build: Any, shapes: tuple[tuple[int, ...], ...]) -> Any:
    args = [relax.Var(f"a{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        builder.emit_func_output(builder.emit(build(*args)))
    mod = lowered(builder.get())
    (func,) = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    return parsed(func.script())


def outputs(func: Any, inputs: list[Array]) -> list[Array] | None:
    """The results, or None for a program without a meaning."""
    try:
        return interpret(func, inputs)
    except (Undefined, ZeroDivisionError, OverflowError, ValueError):
        return None


def answer(func: Any, info: OpInfo, inputs: list[Array]) -> list[Array] | None:
    """What the answered operator computes, by its own lowering, in the function's buffers."""
    lifted = logical(lift(func), info)
    attrs = info.attrs if info.relayout is None else info.relayout.attrs
    built = rebuild(Proposal(info.name, info.operands, attrs), lifted)
    buffers = [tuple(map(int, p.ty.shape)) for p in func.params if is_buffer_var(p)]
    views = [view(info, k, shape, {})[1] for k, shape in enumerate(buffers)]
    places = [p.position for p in built.params]  # type: ignore[union-attr]
    results = outputs(built.func, [inputs[p][views[p]] for p in places if p < len(inputs)])
    out = outputs(func, inputs)  # for what is padding
    if results is None or out is None:
        return None
    for a, index, r in zip(out, views[len(inputs) :], results, strict=True):
        a[index] = r
    return out


def logical(lifted: Lifted, info: OpInfo) -> Lifted:
    """The function over the buffers that the answer's operator has."""
    if info.relayout is None:
        return lifted
    params = tuple(
        Tensor(t.name, layout.shape, t.dtype, t.position) if isinstance(t, Tensor) and layout else t
        for t, layout in zip(lifted.params, info.relayout.buffers, strict=True)
    )
    outs = [params[c.out.position] for c in lifted.outputs]
    return Lifted(
        params,
        tuple(
            replace(c, out=t)
            for c, t in zip(lifted.outputs, outs, strict=True)
            if isinstance(t, Tensor)
        ),
    )


def same(a: list[Array] | None, b: list[Array] | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def feeds(shapes: Sequence[tuple[int, ...]]) -> list[list[Array]]:
    """Inputs away from zero, where everything is defined, and inputs of both signs."""
    rng = np.random.default_rng(0)
    positive = [rng.uniform(0.5, 2.0, s) for s in shapes]
    return [positive, [rng.uniform(-3.0, 3.0, s) for s in shapes]]


@dataclass(frozen=True)
class Trial:
    """A mutant: whether it computes something else, what was answered, and whether wrongly."""

    different: bool
    info: OpInfo | Refusal
    wrong: str = ""


def trial(
    mutant: Any, truth: OpInfo | Refusal, inputs: list[list[Array]], expected: list[Any]
) -> Trial:
    """Compare the answer about a mutant with the mutant, where it is not the operator itself."""
    got = [outputs(mutant, i) for i in inputs]
    info = op_info(mutant)
    if all(map(same, got, expected)):
        return Trial(False, info)
    if not isinstance(info, OpInfo):
        return Trial(True, info)
    claim = (info.name, dict(info.attrs), info.operands, info.relaid)
    if isinstance(truth, OpInfo) and claim == (
        truth.name,
        dict(truth.attrs),
        truth.operands,
        truth.relaid,
    ):
        return Trial(True, info, "the operator itself")
    for values, i in zip(got, inputs, strict=True):
        if values is not None and not same(values, answer(mutant, info, i)):
            return Trial(True, info, repr(info))
    return Trial(True, info)
