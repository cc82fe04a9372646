"""Convolutions by minimal filtering, against torch and the direct schedule."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from tvm import relax

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.codegen.vector_units import VectorUnits
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.schedule import WINOGRAD, Scheduled, schedule
from opinfo.byoc.schedule.loops.minimal_filtering import tiling
from opinfo.byoc.schedule.loops.minimal_filtering.filtering import FILTERINGS, TAPS, Filtering
from opinfo.jit.kernels import build_kernel
from opinfo.jit.kernels.compiler import Compiler

from .fused import TARGET, built, fused_one, inputs, run

op, nn = relax.op, relax.op.nn
F = torch.nn.functional
SCHEDULE = sys.modules["opinfo.byoc.schedule.schedule"]


@pytest.mark.parametrize("filtering", FILTERINGS, ids=lambda f: f"F({f.outputs}, 3)")
def test_transforms_compose_to_a_convolution(filtering: Filtering) -> None:
    """Over the rationals: y[i] is the sum over k of d[i + k] g[k]."""
    data, weights, results = filtering.data, filtering.weights, filtering.results
    points = range(filtering.points)
    for i in range(filtering.outputs):
        for k in range(TAPS):
            for j in range(filtering.points):
                total = sum((results[i][p] * weights[p][k] * data[p][j] for p in points),
                            Fraction(0))  # fmt: skip
                assert total == (j == i + k), (i, k, j)


def conv(shape: list[Any], results: int, **attrs: Any) -> Any:
    """A PrimFunc of a convolution with bias, a residual and relu."""
    taps = attrs.pop("taps", [3, 3])
    groups = attrs.get("groups", 1)

    def expr(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return nn.relu(emit(op.add(emit(nn.conv2d(x, w, **attrs)), b)))

    weights = [results, shape[1] // groups, *taps]
    return fused_one([shape, weights, [1, results, 1, 1]], expr)


def forced(monkeypatch: pytest.MonkeyPatch, filtering: Filtering) -> None:
    """Let each convolution that can be filtered be filtered so, whatever it costs."""
    monkeypatch.setattr(SCHEDULE, "choose_tiling",
                        lambda conv, _: tiling.tiling_of(conv, filtering))  # fmt: skip


def rules(func: Any, **options: Any) -> tuple[str, ...]:
    found = schedule(func, TARGET, **options)
    assert isinstance(found, Scheduled), found
    return found.rules


#: Whole tiles, borders in the last ones, several images of a product, no or uneven padding.
CASES: dict[str, tuple[list[int], int, Any]] = {
    "whole tiles": ([1, 16, 12, 16], 16, 1),
    "odd": ([1, 5, 7, 9], 6, 1),
    "not padded": ([1, 8, 10, 21], 8, 0),
    "uneven padding": ([2, 8, 6, 11], 4, [0, 2, 1, 0]),
    "images": ([6, 4, 8, 8], 20, 1),
    "blocks of images": ([2, 3, 40, 41], 3, 1),
    "wide": ([1, 4, 4, 150], 4, 1),
}


@pytest.mark.parametrize(
    "name, filtering",
    [*((name, FILTERINGS[0]) for name in CASES), ("odd", FILTERINGS[1]), ("images", FILTERINGS[1])],
    ids=lambda value: value if isinstance(value, str) else f"F({value.outputs}, 3)",
)
def test_same_as_torch(name: str, filtering: Filtering, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, results, padding = CASES[name]
    func = conv(shape, results, padding=padding)
    forced(monkeypatch, filtering)
    found = schedule(func, TARGET, winograd=True)
    assert isinstance(found, Scheduled) and found.rules[0] == WINOGRAD
    arrays = inputs(func, {})
    arrays[-1][...] = np.nan
    x, w, b = (torch.from_numpy(a).double() for a in arrays[:-1])
    sides = [padding] * 4 if isinstance(padding, int) else padding  # top, left, bottom, right
    padded = F.pad(x, (sides[1], sides[3], sides[0], sides[2]))
    expected = F.relu(F.conv2d(padded, w) + b).numpy()
    (actual,) = run(built(found.func), arrays)
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


@cache
def both() -> tuple[Any, Any, Any]:
    """A PrimFunc, and its kernels by minimal filtering and directly."""
    func = conv([1, 4, 12, 12], 4, padding=1)
    with pytest.MonkeyPatch.context() as patch:
        forced(patch, FILTERINGS[0])
        found = schedule(func, TARGET, winograd=True)
    direct = schedule(func, TARGET)
    assert isinstance(found, Scheduled) and isinstance(direct, Scheduled)
    return func, built(found.func), built(direct.func)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38], ids=str)
def test_without_a_finite_result_all_are_computed_directly(value: float) -> None:
    func, filtered, direct = both()
    arrays = inputs(func, {})
    arrays[0][0, 1, 5, 6] = value
    arrays[1] *= 1e-3
    (actual,), (expected,) = run(filtered, arrays), run(direct, arrays)
    assert value != 3e38 or np.isfinite(expected).all()  # sums do not overflow, transforms do
    np.testing.assert_array_equal(actual, expected)


def test_nothing_is_read_after_the_end_of_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last tiles need more columns than there are: a NaN there would lead to direct kernels."""
    func = conv([1, 2, 9, 10], 3)
    forced(monkeypatch, FILTERINGS[0])
    found = [schedule(func, TARGET, winograd=winograd) for winograd in (True, False)]
    kernels = [built(s.func) for s in found if isinstance(s, Scheduled)]
    x, *others = inputs(func, {})
    followed = np.full(x.size + 1000, np.nan, "float32")
    followed[: x.size] = x.ravel()
    results = []
    for kernel in kernels:
        start = tvm.runtime.tensor(followed)._create_view(x.shape)
        tensors = [start, *map(tvm.runtime.tensor, others)]
        kernel(*tensors)
        results.append(tensors[-1].numpy())
    filtered, direct = results
    assert (filtered != direct).any()
    np.testing.assert_allclose(filtered, direct, rtol=1e-4, atol=1e-4)


def test_finite_results_are_not_computed_directly() -> None:
    func, filtered, direct = both()
    arrays = inputs(func, {})
    (actual,), (expected,) = run(filtered, arrays), run(direct, arrays)
    assert (actual != expected).any()


REFUSED: dict[str, Any] = {
    "strided": lambda: conv([1, 16, 16, 16], 16, strides=2, padding=1),
    "dilated": lambda: conv([1, 16, 16, 16], 16, dilation=2, padding=2),
    "5x5": lambda: conv([1, 16, 16, 16], 16, taps=[5, 5], padding=2),
    "3x1": lambda: conv([1, 16, 16, 16], 16, taps=[3, 1]),
    "grouped": lambda: conv([1, 16, 16, 16], 16, groups=2, padding=1),
    "depthwise": lambda: conv([1, 16, 16, 16], 16, groups=16, padding=1),
    "symbolic": lambda: conv(["n", 16, 16, 16], 16, padding=1),
    "channels last": lambda: fused_one(
        [[1, 16, 16, 16], [3, 3, 16, 16]],
        lambda _, x, w: nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
    ),
    "maximum": lambda: fused_one([[1, 16, 16, 16]], lambda _, x: nn.max_pool2d(x, (3, 3))),
    "float64": lambda: fused_one([[1, 8, 9, 9], [8, 8, 3, 3]], lambda _, x, w: nn.conv2d(x, w),
                                 ["float64"] * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_kernels_stay_direct(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, FILTERINGS[0])
    assert WINOGRAD not in rules(REFUSED[name](), winograd=True)


def test_it_must_be_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, FILTERINGS[0])
    func = conv([1, 16, 16, 16], 16, padding=1)
    assert WINOGRAD in rules(func, winograd=True) and WINOGRAD not in rules(func)


def test_large_images_are_filtered_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    def choose(conv: Any, _: Any) -> None:
        units = VectorUnits(512, 32)
        chosen.append((tiling.choose_tiling(conv, units),
                       tiling.choose_tiling(conv, VectorUnits(512, 32, cores=2))))  # fmt: skip

    monkeypatch.setattr(SCHEDULE, "choose_tiling", choose)
    for shape in ([1, 64, 56, 56], [1, 64, 4, 4], [1, 2, 56, 56]):
        schedule(conv(shape, shape[1], padding=1), TARGET, winograd=True)
    (large, shared), (small, _), (few, _) = chosen
    assert large is not None and large.filtering.outputs == 4
    assert shared is None and small is None and few is None


def test_stored_kernels_that_may_be_filtered_have_keys_of_their_own() -> None:
    assert Compiler().schedules != Compiler(winograd=False).schedules
    assert Compiler(check=False).schedules == Compiler(winograd=False).schedules


class TestRace:
    """`KernelBuilder` keeps a filtered kernel only if it is right and faster."""

    @staticmethod
    def made(folder: Path, **options: Any) -> build_kernel.BuiltKernel:
        builder = build_kernel.KernelBuilder(conv(["n", 4, 9, 9], 4, padding=1), native_target())
        return builder.make({"n": 2}, folder / "made.so", **options)

    @pytest.fixture(autouse=True)
    def _force(self, monkeypatch: pytest.MonkeyPatch) -> None:
        forced(monkeypatch, FILTERINGS[1])
        monkeypatch.setattr(build_kernel, "seconds", lambda *_: (1.0, 1.0))

    def test_it_serves(self, tmp_path: Path) -> None:
        found = self.made(tmp_path)
        assert found.library is not None and found.rule.startswith(WINOGRAD)
        func, values = conv(["n", 4, 9, 9], 4, padding=1), {"n": 2}
        arrays = build_kernel.arguments(bind(func, values), values)
        (actual,) = run(build_kernel.loaded(found.library), arrays)
        (expected,) = run(built(func), arrays)
        assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()

    @pytest.mark.parametrize("options", [{"check": False}, {"winograd": False}], ids=str)
    def test_not_without_a_race(self, options: dict[str, bool], tmp_path: Path) -> None:
        found = self.made(tmp_path, **options)
        assert found.library is not None and WINOGRAD not in found.rule

    @pytest.mark.parametrize("wrong", [False, True])
    def test_the_direct_kernel_follows(
        self, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[int] = []

        def compare(*_: Any) -> None:
            tried.append(1)
            if wrong and len(tried) == 1:
                raise build_kernel.ResultsDiffer("it rounds too much")

        monkeypatch.setattr(build_kernel, "compare", compare)
        times = iter([(1.0, 1.0)] if wrong else [(2.0, 1.0), (1.0, 1.0)])
        monkeypatch.setattr(build_kernel, "seconds", lambda *_: next(times))
        found = self.made(tmp_path)
        assert len(tried) == 2 and found.library is not None and WINOGRAD not in found.rule
        assert [p.name for p in tmp_path.iterdir()] == ["made.so"]
