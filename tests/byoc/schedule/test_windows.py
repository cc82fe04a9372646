"""Convolutions and pools, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tvm import relax
from tvm.script import tirx as T

from .fused import at, built, fused_one, inputs, run, scheduled, target_of

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


def test_columns_after_full_tiles_are_computed_by_single_vectors() -> None:
    """Whatever their number: tiles, vectors and borders of the padding meet everywhere."""
    expr, oracle = conv(1, 1)
    func = fused_one([[1, 2, 3, "w"], [3, 2, 3, 3], [1, 3, 1, 1]], expr)
    kernel = built(scheduled(func).func)
    for w in (1, 15, 16, 31, 32, 33, 40, 62, 63, 65, 80, 130):
        arrays = inputs(func, {"w": w})
        arrays[-1][...] = np.nan
        expected = oracle(*map(torch.from_numpy, arrays[:-1])).numpy()
        np.testing.assert_allclose(run(kernel, arrays)[0], expected, rtol=1e-4, atol=1e-4)


def test_guards_of_a_padding_are_ranges_of_the_vector_axis() -> None:
    """Of rows that are long enough for loops over their borders."""
    func = fused_one([[1, 3, 16, 96], [8, 3, 3, 3], [1, 8, 1, 1]], conv(1, 1)[0])
    text = scheduled(func).func.script()
    guards = [line for line in text.splitlines() if "if_then_else" in line]
    assert guards and not any(" l" in line.split("if_then_else(")[1].split(",")[0]
                              for line in guards)  # fmt: skip


def conv_of(strides: Any, padding: Any, dilation: Any = 1) -> tuple[Any, Any]:
    """A convolution and what is added, and its oracle."""

    def expr(emit: Any, x: Any, w: Any, r: Any) -> Any:
        y = nn.conv2d(x, w, strides=strides, padding=padding, dilation=dilation)
        return op.add(emit(y), r)

    def oracle(x: Any, w: Any, r: Any) -> Any:
        return F.conv2d(x, w, None, strides, padding, dilation) + r

    return expr, oracle


JOINED: dict[str, tuple[list[Any], list[int], list[Any]]] = {
    "3x3": ([5, 9, 7], [24, 5, 3, 3], [1, 1]),
    "not padded": ([5, 9, 7], [24, 5, 3, 3], [1, 0]),
    "strided": ([5, 15, 13], [24, 5, 3, 3], [2, 1]),
    "strided, not padded": ([5, 16, 14], [24, 5, 3, 3], [2, 0]),
    "stride 3": ([5, 16, 13], [24, 5, 2, 2], [3, 1]),
    "strides 3 and 1": ([5, 17, 9], [24, 5, 2, 3], [(3, 1), (0, 1)]),
    "strides 1 and 2": ([5, 9, 13], [24, 5, 3, 2], [(1, 2), (1, 0)]),
    "dilated": ([5, 11, 10], [24, 5, 3, 3], [1, 2, 2]),
    "dilated and strided": ([5, 19, 13], [24, 5, 3, 2], [2, 1, (3, 2)]),
    "1x1 strided": ([5, 9, 10], [24, 5, 1, 1], [2, 0]),
}


@pytest.mark.part
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("n", [1, 2])
def test_rows_of_narrow_images_are_joined(name: str, n: int) -> None:
    x, w, setting = JOINED[name]
    expr, oracle = conv_of(*setting)
    arrays = [np.random.default_rng(n).standard_normal(s).astype("float32") for s in ([n, *x], w)]
    shape = F.conv2d(*map(torch.from_numpy, arrays), None, *setting).shape
    symbolic = fused_one([["n", *x], w, ["n", *shape[1:]]], expr)
    for func in (symbolic, at(symbolic, {"n": n})):
        found = scheduled(func)
        for mcpu in ("haswell", "skylake-avx512"):  # of SSE2 a row may be some vectors
            assert "windows" in scheduled(func, target_of(mcpu)).func.script()
        given = inputs(func, {"n": n})
        given[-1][...] = np.nan
        expected = oracle(*map(torch.from_numpy, given[:-1])).numpy()
        np.testing.assert_allclose(run(built(found.func), given)[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "w", "groups"),
    [
        ([3, 32, 32], [16, 3, 3, 3], 1),
        ([24, 9, 7], [24, 1, 3, 3], 24),
        ([5, 9, 7], [1, 5, 3, 3], 1),
        ([5, 9, 7], [24, 5, 1, 1], 1),
    ],
    ids=["full vectors", "depthwise", "one channel", "1x1"],
)
def test_copies_of_an_image_have_to_pay(x: list[int], w: list[int], groups: int) -> None:
    func = fused_one([[1, *x], w, [1, w[0], 1, 1]], conv(1, w[-1] // 2, groups)[0])
    assert "windows" not in scheduled(func).func.script()


def test_what_is_behind_a_guard_is_not_copied() -> None:
    """The last row of windows is not there."""

    @T.prim_func(private=True, s_tir=True)
    def func(p: T.Buffer((5, 8, 9), "float32"), w: T.Buffer((24, 5, 3, 3), "float32"),
             out: T.Buffer((24, 7, 7), "float32")) -> None:  # fmt: skip
        T.func_attr({"tirx.noalias": True})
        for o, y, x, c, a, b in T.grid(24, 7, 7, 5, 3, 3):
            with T.sblock("conv"):
                vo, vy, vx, vc, va, vb = T.axis.remap("SSSRRR", [o, y, x, c, a, b])
                with T.init():
                    out[vo, vy, vx] = T.float32(0)
                out[vo, vy, vx] = (
                    out[vo, vy, vx]
                    + T.if_then_else(va < 2, p[vc, vy + va, vx + vb], T.float32(0))
                    * w[vo, vc, va, vb]
                )

    found = scheduled(func).func
    assert "windows" not in found.script()
    arrays = inputs(func, {})
    p = np.pad(arrays[0], [(0, 0), (0, 1), (0, 0)])
    w = arrays[1] * (np.arange(3) < 2)[:, None]
    expected = F.conv2d(torch.from_numpy(p), torch.from_numpy(w.astype("float32"))).numpy()
    np.testing.assert_allclose(run(built(found), arrays)[0], expected, rtol=1e-4, atol=1e-4)
