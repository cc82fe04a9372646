"""Convolutions and pools, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tvm import relax

from .fused import at, built, fused_one, inputs, run, scheduled

op, nn = relax.op, relax.op.nn
F = torch.nn.functional


def conv(stride: int, padding: int, groups: int = 1) -> tuple[Any, Any]:
    """A convolution with bias and relu, and its oracle."""

    def expr(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(nn.conv2d(x, w, strides=stride, padding=padding, groups=groups))
        return nn.relu(emit(op.add(y, b)))

    def oracle(x: Any, w: Any, b: Any) -> Any:
        return F.relu(F.conv2d(x, w, stride=stride, padding=padding, groups=groups) + b)

    return expr, oracle


def nhwc(kernel_layout: str, stride: int) -> tuple[Any, Any]:
    order = {"HWIO": (3, 2, 0, 1), "OHWI": (0, 3, 1, 2)}[kernel_layout]

    def expr(emit: Any, x: Any, w: Any) -> Any:
        return nn.conv2d(x, w, strides=stride, padding=1, data_layout="NHWC",
                         kernel_layout=kernel_layout)  # fmt: skip

    def oracle(x: Any, w: Any) -> Any:
        y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(*order), stride=stride, padding=1)
        return y.permute(0, 2, 3, 1)

    return expr, oracle


def max_pool(emit: Any, x: Any) -> Any:
    return nn.max_pool2d(x, (3, 3), (2, 2), (1, 1))


CASES: dict[str, tuple[Any, tuple[Any, Any]]] = {
    "3x3": ([["n", 3, "h", "w"], [8, 3, 3, 3], [1, 8, 1, 1]], conv(1, 1)),
    "strided": ([["n", 5, 9, "w"], [6, 5, 3, 3], [1, 6, 1, 1]], conv(2, 1)),
    "stem": ([["n", 3, 19, 21], [8, 3, 7, 7], [1, 8, 1, 1]], conv(2, 3)),
    "stride 3": ([["n", 3, 19, 20], [8, 3, 3, 3], [1, 8, 1, 1]], conv(3, 0)),
    "1x1": ([["n", 5, "h", "w"], [6, 5, 1, 1], [1, 6, 1, 1]], conv(1, 0)),
    "1x1 strided": ([["n", 5, 9, 10], [6, 5, 1, 1], [1, 6, 1, 1]], conv(2, 0)),
    "depthwise": ([["n", 6, 9, 18], [6, 1, 3, 3], [1, 6, 1, 1]], conv(1, 1, 6)),
    "depthwise strided": ([["n", 6, 15, 15], [6, 1, 3, 3], [1, 6, 1, 1]], conv(2, 1, 6)),
    "grouped": ([["n", 6, 9, 11], [8, 3, 3, 3], [1, 8, 1, 1]], conv(1, 1, 2)),
    "NHWC HWIO": ([["n", "h", "w", 5], [3, 3, 5, 20]], nhwc("HWIO", 1)),
    "NHWC OHWI": ([["n", 7, 7, 6], [8, 3, 3, 6]], nhwc("OHWI", 2)),
    "max pool": ([["n", 6, 15, 18]], (max_pool, lambda x: F.max_pool2d(x, 3, 2, 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_same_as_torch(name: str) -> None:
    shapes, (expr, oracle) = CASES[name]
    func = fused_one(shapes, expr)
    found = scheduled(func)
    assert not {"serial", "plain"} & set(found.rules)
    kernel = built(found.func)
    for n, h, w in [(1, 3, 5), (2, 9, 18)]:
        sizes = {"n": n, "h": h, "w": w}
        arrays = inputs(func, sizes)
        expected = oracle(*map(torch.from_numpy, arrays[:-1])).numpy()
        kernels = [kernel]
        if n == 2:
            kernels.append(built(scheduled(at(func, sizes)).func))
        for k in kernels:
            np.testing.assert_allclose(run(k, arrays)[0], expected, rtol=1e-4, atol=1e-4)


def test_guards_of_a_padding_are_ranges_of_the_vector_axis() -> None:
    func = fused_one([[1, 3, 16, 16], [8, 3, 3, 3], [1, 8, 1, 1]], conv(1, 1)[0])
    text = scheduled(func).func.script()
    guards = [line for line in text.splitlines() if "if_then_else" in line]
    assert guards and not any(" l" in line.split("if_then_else(")[1].split(",")[0]
                              for line in guards)  # fmt: skip
