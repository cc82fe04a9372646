"""Kernels of PrimFuncs whose outer axes have sizes that are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tirx

from opinfo.analysis import Refusal
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled

from ...common.interpret import interpret
from ...common.machine import execute
from .gpu_cases import Build, kernel_of, nn, op, operands, prim_func

N, S = tirx.Var("n", "int64"), tirx.Var("s", "int64")
SIZES = {"n": 3, "s": 5}


def norm(e: Any, x: Any, r: Any, w: Any) -> Any:
    return e(nn.rms_norm(e(op.add(x, r)), w, axes=[-1], epsilon=1e-5))


CASES: dict[str, tuple[Build, tuple[tuple[Any, ...], ...]]] = {
    "residual, norm": (norm, ((N, S, 72), (N, S, 72), (72,))),
    "bias, gelu": (lambda e, x, b: e(nn.gelu(e(op.add(x, b)))), ((N, S, 72), (72,))),
    "heads": (lambda e, x: e(op.permute_dims(x, [0, 2, 1, 3])), ((N, S, 4, 16),)),
    "embedding": (lambda e, i, t: e(op.take(t, i, axis=0)), ((N, S, "int64"), (9, 72))),
    "pool": (lambda e, x: e(nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), layout="NHWC")),
             ((N, 9, 9, 16),)),
    "mean of pixels": (lambda e, x: e(op.mean(x, [1, 2])), ((N, 7, 7, 64),)),
    "argmax": (lambda e, x: e(op.argmax(x, -1)), ((N, 100),)),
    "softmax": (lambda e, x: e(nn.softmax(x)), ((N, S, 100),)),
    "transpose": (lambda e, x: e(op.permute_dims(x, [0, 2, 1])), ((N, 20, 72),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_symbolic_sizes(name: str) -> None:
    build, shapes = CASES[name]
    func = prim_func(build, *shapes)
    kernel = kernel_of(func)
    values = operands(func, SIZES)
    got = execute(kernel, values, SIZES)
    for a, b in zip(got, interpret(func, values, SIZES), strict=True):
        np.testing.assert_allclose(a, b, 1e-6, 1e-9)


def test_vectors_stay_vectors() -> None:
    build, shapes = CASES["residual, norm"]
    assert kernel_of(prim_func(build, *shapes)).script().count("T.vectorized(T.int64(8))") >= 3


REFUSED: dict[str, tuple[str, Build, tuple[tuple[Any, ...], ...]]] = {
    "rows of symbolic length": ("along a symbolic axis", lambda e, x: e(op.sum(x, [1])),
                                ((400, N),)),
    "few elements": ("few elements", lambda e, x: e(nn.relu(x)), ((N, 8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name: str) -> None:
    reason, build, shapes = REFUSED[name]
    answer = gpu_scheduled(prim_func(build, *shapes))
    assert isinstance(answer, Refusal) and reason in answer.reason
