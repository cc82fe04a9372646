"""Gated activations and norms of sums: numpy agrees with their definitions, chains name them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T

from opinfo.analysis import Chain, op_infos
from opinfo.analysis.composites import add_rms_norm, gated_activation
from opinfo.testing.strip import strip

from .test_rotary_embedding import run

X = np.random.default_rng(0).uniform(-3, 3, (3, 8)).astype("float32")
_ERF = np.vectorize(math.erf)
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + _ERF(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


@pytest.mark.part
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("gate", "paired"), [(0, False), (1, False), (0, True), (1, True)])
def test_one_half_is_activated_and_multiplied(activation: str, gate: int, paired: bool) -> None:
    halves = (X[:, ::2], X[:, 1::2]) if paired else (X[:, :4], X[:, 4:])
    got = run([X], gated_activation, activation=activation, gate=gate, paired=paired)
    expected = ACTIVATIONS[activation](halves[gate]) * halves[1 - gate]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_any_axis_is_halved(axis: int) -> None:
    x = np.moveaxis(X, 1, axis)
    got = run([np.ascontiguousarray(x)], gated_activation, activation="silu", axis=axis)
    expected = ACTIVATIONS["silu"](X[:, :4]) * X[:, 4:]
    np.testing.assert_allclose(np.moveaxis(got, axis, 1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [({"activation": "swish"}, "activation swish"), ({"activation": "silu", "gate": 2}, "gate 2"),
     ({"activation": "silu", "axis": 0}, "3\\) elements along axis 0")],
)  # fmt: skip
def test_malformed_gates_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run([X], gated_activation, **attrs)


# ------------------------------------------------------------------------- norms of sums


@pytest.mark.parametrize(("axes", "shape"), [([-1], (8,)), ([1, 2], (2, 4))])
def test_the_norm_of_a_sum_and_the_sum(axes: list[int], shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-2, 2, (3, *shape)).astype("float32") for _ in range(2))
    w = rng.uniform(0.5, 2, shape).astype("float32")
    norm, total = run([a, b, w], add_rms_norm, axes=axes, epsilon=1e-3)
    s = a.astype("float64") + b
    mean = np.mean(s * s, axis=tuple(range(1, s.ndim)), keepdims=True)
    np.testing.assert_allclose(norm, s / np.sqrt(mean + 1e-3) * w, rtol=1e-5)
    np.testing.assert_array_equal(total, a + b)


@pytest.mark.parametrize(
    ("axes", "weight", "message"),
    [([0], X[:, 0], "axes"), ([], X[0], "axes"), ([-1], X[0].astype("float16"), "weight")],
)
def test_malformed_norms_are_refused(axes: list[int], weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run([X, X, weight], add_rms_norm, axes=axes)


@T.prim_func(s_tir=True)
def by_threads(
    a: T.Buffer((6, 64), "float16"), b: T.Buffer((6, 64), "float16"),
    w: T.Buffer((64,), "float16"), norm: T.Buffer((6, 64), "float16"),
    total: T.Buffer((6, 64), "float16"),
) -> None:  # fmt: skip
    """Sixteen threads of a row keep their sums; the sum of both is stored first."""
    own = T.sblock_alloc_buffer((4,), "float16", scope="local")
    part = T.sblock_alloc_buffer((16, 6), "float32", scope="local")
    square = T.sblock_alloc_buffer((6,), "float32", scope="shared")
    for row in T.thread_binding(6, thread="blockIdx.x"):
        for x in T.thread_binding(16, thread="threadIdx.x"):
            for i in range(4):
                with T.sblock("add"):
                    r, c = T.axis.spatial(6, row), T.axis.spatial(64, i * 16 + x)
                    own[c // 16] = a[r, c] + b[r, c]
                with T.sblock("store"):
                    r, c = T.axis.spatial(6, row), T.axis.spatial(64, i * 16 + x)
                    total[r, c] = own[c // 16]
            with T.sblock("zero"):
                t, r = T.axis.remap("SS", [x, row])
                part[t, r] = T.float32(0)
            for i in range(4):
                with T.sblock("squares"):
                    t, r, k = T.axis.remap("SSR", [x, row, i])
                    part[t, r] += T.float32(own[k]) * T.float32(own[k])
        for x in T.thread_binding(16, thread="threadIdx.x"):
            with T.sblock("all"):
                t, r = T.axis.remap("RS", [x, row])
                with T.init():
                    square[r] = T.float32(0)
                square[r] = square[r] + part[t, r]
        for i in range(4):
            for x in T.thread_binding(16, thread="threadIdx.x"):
                with T.sblock("scale"):
                    r, c = T.axis.spatial(6, row), T.axis.spatial(64, i * 16 + x)
                    norm[r, c] = T.Cast(
                        "float16",
                        T.rsqrt(square[r] * T.float32(0.015625) + T.float32(1e-5))
                        * T.float32(own[c // 16]) * T.float32(w[c]),
                    )  # fmt: skip


def test_a_kernel_with_threads_is_one_operator() -> None:
    """Its statements store the sum first, its parameters have the norm first."""
    chain = op_infos(strip(by_threads))
    assert isinstance(chain, Chain) and chain.names == ("relax.nn.add_rms_norm",)
    (step,) = chain.steps
    assert step.operator.operands == (0, 1, 2)
    assert step.info.certificate.kind == "proved"
    assert [(r.step, r.output) for r in chain.outputs] == [(0, 0), (0, 1)]
