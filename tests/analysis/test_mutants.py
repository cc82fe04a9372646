"""A program that is nearly an operator never gets the operator's answer.

The truth is the interpreter's, on random inputs: whatever :func:`op_info` answers for a mutant must
compute what the mutant computes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.build import rebuild
from opinfo.analysis.comprehension import Lifted
from opinfo.analysis.legalise import lowered
from opinfo.analysis.lift import lift
from opinfo.analysis.op_info import Proposal
from opinfo.analysis.term import Tensor

from ..interpret import Array, Undefined, interpret
from ..mutants import mutants, parsed
from ..relaid.check import view

OPS = relax.op
LIMIT = 40  # mutants of one operator, spread over its script

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


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_mutants_get_no_wrong_answer(name: str) -> None:
    build, shapes, least = CASES[name]
    original = legalised(build, shapes)
    truth = op_info(original)
    assert isinstance(truth, OpInfo)
    rng = np.random.default_rng(0)
    count = sum(is_buffer_var(p) for p in original.params)
    assert count > len(shapes)
    inputs = [rng.uniform(0.5, 2.0, s) for s in shapes]
    expected = outputs(original, inputs)
    assert expected is not None and same(expected, answer(original, truth, inputs))
    different = 0
    chosen = list(mutants(original))
    for change, mutant in chosen[:: max(1, len(chosen) // LIMIT)]:
        got = outputs(mutant, inputs)
        info = op_info(mutant)
        if same(got, expected):
            continue
        different += 1
        if isinstance(info, OpInfo):
            claim = (info.name, dict(info.attrs), info.operands, info.relaid)
            assert claim != (truth.name, dict(truth.attrs), truth.operands, False), change
            if got is not None:
                assert same(got, answer(mutant, info, inputs)), f"{change}: {info}"
    assert different >= least, f"only {different} mutants of {name} compute something else"
