"""Schedules for a range of a size: they compute what the others do, without what is not needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.byoc.dims.span import Span
from opinfo.byoc.schedule import Scheduled, schedule
from opinfo.byoc.schedule.nest.symbolic_sizes import SizeBounds, SymbolicSizes

from .fused import Expr, Shape, built, fused_one, inputs, run

op, nn = relax.op, relax.op.nn
AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
CPU = tvm.target.Target("llvm")


def ranged(func: Any, target: Any = CPU, **spans: Span) -> Any:
    before = tvm.ir.save_json(func)
    found = schedule(func, target, spans)
    assert isinstance(found, Scheduled), found
    assert tvm.ir.save_json(func) == before
    return found.func


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def windows(x: Any, w: Any) -> Any:
    p = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    views = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (2, 3))
    return np.einsum("nchwab,dcab->ndhw", views, w)


MATMUL: tuple[list[Shape], Expr, Any] = (
    [["n", 33], [33, 50]], lambda emit, x, w: op.matmul(x, w), np.matmul)  # fmt: skip
SCORES: tuple[list[Shape], Expr, Any] = (
    [[2, "n", 9], [2, 9, "n"]], lambda emit, x, w: op.matmul(x, w), np.matmul)  # fmt: skip
LONG: tuple[list[Shape], Expr, Any] = (
    [[70, "n"], ["n", 5]], lambda emit, x, w: op.matmul(x, w), np.matmul)  # fmt: skip
SOFTMAX: tuple[list[Shape], Expr, Any] = (
    [[3, "n"]], lambda emit, x: nn.softmax(x, -1), softmax)  # fmt: skip
SUMS: tuple[list[Shape], Expr, Any] = (
    [["n", "n"]], lambda emit, x: op.sum(x, 1), lambda x: x.sum(1))  # fmt: skip
MINUS: tuple[list[Shape], Expr, Any] = (
    [["n", 3]], lambda emit, x: op.negative(x), np.negative)  # fmt: skip
CONV: tuple[list[Shape], Expr, Any] = (
    [[2, 3, "n", "n"], [4, 3, 3, 3]], lambda emit, x, w: nn.conv2d(x, w, padding=1),
    windows)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "span", "sizes"),
    [
        (MATMUL, Span(1, 3), (1, 2, 3)),
        (MATMUL, Span(17, 40), (17, 18, 29, 40)),
        (MATMUL, Span(8, 64, 8), (8, 24, 64)),
        (MATMUL, Span(7, None, 7), (7, 35)),
        (SCORES, Span(1, 3), (1, 2, 3)),
        (SCORES, Span(5, 31), (5, 16, 31)),
        (SCORES, Span(16, None, 16), (16, 48)),
        (LONG, Span(16, None, 16), (16, 80)),
        (LONG, Span(2, 6, 2), (2, 6)),
        (SOFTMAX, Span(1, 7), (1, 4, 7)),
        (SOFTMAX, Span(32, 96, 32), (32, 96)),
        (SUMS, Span(4, 64, 4), (4, 20, 64)),
        (SUMS, Span(1, 5), (1, 3, 5)),
        (MINUS, Span(64, None, 64), (64, 192)),
        (CONV, Span(3, 9), (3, 6, 9)),
        (CONV, Span(8, 16, 8), (8, 16)),
    ],
)  # fmt: skip
def test_in_the_range_it_computes_what_numpy_does(case: Any, span: Span, sizes: Any) -> None:
    shapes, expr, right = case
    func = fused_one(shapes, expr)
    kernel = built(ranged(func, n=span), CPU)
    for n in sizes:
        arrays = inputs(func, {"n": n})
        arrays[-1][...] = np.nan
        np.testing.assert_allclose(run(kernel, arrays)[0], right(*arrays[:-1]), rtol=1e-4,
                                   atol=1e-4)  # fmt: skip


def test_two_sizes_in_ranges() -> None:
    func = fused_one([["n", "k"], ["k", "m"]], lambda emit, x, w: op.matmul(x, w))
    kernel = built(ranged(func, n=Span(1, 5), k=Span(4, None, 4), m=Span(8, 48, 8)), CPU)
    for n in (1, 5):
        for k in (4, 12):
            for m in (8, 40, 48):
                arrays = inputs(func, {"n": n, "k": k, "m": m})
                np.testing.assert_allclose(run(kernel, arrays)[0], arrays[0] @ arrays[1],
                                           rtol=1e-4, atol=1e-4)  # fmt: skip


def nodes(func: Any, *kinds: type) -> int:
    """How many statements or expressions of some kinds there are."""
    import tvm_ffi

    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, found.append)
    return sum(isinstance(x, kinds) for x in found)


@pytest.mark.parametrize(
    ("case", "span"),
    [(MATMUL, Span(8, None, 8)), (SCORES, Span(64, None, 64)), (MINUS, Span(64, None, 64))],
)
def test_tiles_that_divide_leave_no_rest(case: Any, span: Span) -> None:
    """Neither a clamped row or vector, nor a nest for shorter axes."""
    shapes, expr, _ = case
    func = fused_one(shapes, expr)
    rest = (tirx.Min, tirx.Max, tirx.IfThenElse)
    assert nodes(ranged(func, AVX512, n=span), *rest) == 0
    assert nodes(ranged(func, AVX512, n=Span()), *rest) > 0


def test_a_reduction_that_vectors_divide_has_no_single_elements() -> None:
    shapes, expr, _ = SUMS
    func = fused_one(shapes, expr)
    loops = [nodes(ranged(func, AVX512, n=Span(s, None, s)), tirx.For) for s in (1, 16, 64)]
    assert loops[0] > loops[1] > loops[2]


def test_a_short_axis_has_no_nest_for_a_long_one() -> None:
    shapes, expr, _ = SCORES
    func = fused_one(shapes, expr)
    assert nodes(ranged(func, AVX512, n=Span(1, 3)), tirx.IfThenElse) < nodes(
        ranged(func, AVX512), tirx.IfThenElse)  # fmt: skip


def test_columns_are_packed_where_there_are_always_many_rows() -> None:
    func = fused_one([["n", 512], [512, 1024]], lambda emit, x, w: op.matmul(x, w))
    assert "strip" in ranged(func, AVX512, n=Span(128, 256)).script()
    assert "strip" not in ranged(func, AVX512, n=Span(4, 64)).script()


def test_what_is_known_of_expressions() -> None:
    n, m, free = (tirx.Var(k, "int64") for k in ("n", "m", "free"))
    sizes = SymbolicSizes((n, Span(8, 128, 8)), (m, Span()))
    expected = [
        (4 * n, SizeBounds(32, 512, 32)),
        (n // 4, SizeBounds(2, 32, 2)),
        (n + 1, SizeBounds(9, 129)),
        (n - 8, SizeBounds(0, 120, 8)),
        (n * m, SizeBounds(8, None, 8)),
        (n + free, SizeBounds()),
        (tirx.IntImm("int64", 6), SizeBounds(6, 6, 6)),
        (tirx.Min(n, m), SizeBounds(1, 128)),
    ]
    for e, known in expected:
        assert sizes.of(e) == known, e


def test_a_dimension_that_is_not_there_is_refused() -> None:
    func = fused_one(*MATMUL[:2])
    with pytest.raises(ValueError, match=r"unknown dimension q; the dimensions of .*: n"):
        schedule(func, CPU, {"q": Span(1, 4)})
