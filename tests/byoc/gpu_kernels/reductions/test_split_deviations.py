"""Variances in one pass: which sums of squares are deviations from a mean, and which are not.

The constants of `split_plan` are those of a device so small that small tensors are split.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from opinfo.byoc.backends.nvidia.splits import split_plan
from opinfo.byoc.backends.nvidia.splits.split_kernels import PartKernel, split_kernels

from ....common.interpret import interpret
from ..gpu_cases import op, operands, prim_func
from ..test_gpu_splits import SMALL, computed


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(split_plan, name, value)


def parts_of(func: Any) -> tuple[PartKernel, ...]:
    parts = split_kernels(func)
    assert isinstance(parts, tuple), parts
    return parts


def squares(
    scale: float = 1.0 / 2560, start: float = 0.0, axes: str = "same", power: int = 2,
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """sum_k (x[i, k] - scale * sum_k x[i, k])^power, for two rows of 2560 numbers."""
    x, y = (te.placeholder((2, 2560), dtype, name=n) for n in "xy")
    k, r = te.reduce_axis((0, 2560), "k"), te.reduce_axis((0, 2560), "r")
    total = te.compute((2,), lambda i: te.sum(x[i, k], k), name="total")
    divisor = tirx.const(round(1 / scale), dtype)

    def term(i: Any) -> Any:
        row = 1 - i if axes == "other row" else i
        read = {
            "same": x[i, r],
            "other row": x[i, r],
            "other tensor": y[i, r],
            "shifted": x[i, r] + tirx.const(start, dtype),
        }[axes]
        apart = read - total[row] / divisor
        out = apart
        for _ in range(power - 1):
            out = out * apart
        return te.sum(out, r)

    out = te.compute((2,), term, name="out")
    inputs = [x, y, out] if axes == "other tensor" else [x, out]
    return te.create_prim_func(inputs).with_attr("tirx.noalias", True)


def check(func: Any, kernels: int) -> None:
    parts = parts_of(func)
    assert len(parts) == kernels
    values = operands(func)
    for got, want in zip(computed(func, parts, values), interpret(func, values), strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-9)


def test_deviations_are_read_with_the_sum() -> None:
    func = squares()
    first, second = parts_of(func)
    assert [len(first.reads), len(first.writes)] == [1, 2]
    assert all(not b.same_as(func.params[0]) for b in second.reads)
    check(func, 2)


@pytest.mark.parametrize("more", [
    {"scale": 1 / 2559}, {"axes": "other row"}, {"axes": "other tensor"}, {"power": 3},
    {"axes": "shifted", "start": 1.0}, {"dtype": "float64"},
], ids=str)  # fmt: skip
def test_other_sums_of_squares_are_read_again(more: dict[str, Any]) -> None:
    """The identity needs the mean of the same terms, over all of them."""
    check(squares(**more), 4)


def test_a_variance_far_from_0_keeps_its_digits() -> None:
    """The difference of the mean square and the squared mean would have none."""
    func = prim_func(lambda e, x: e(op.variance(x)), (64, 40, "float32"))
    x = 1e6 + np.random.default_rng(0).standard_normal((64, 40))
    (got,) = computed(func, parts_of(func), [x])
    np.testing.assert_allclose(got, np.var(x), 1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_not_lost(value: float) -> None:
    func = prim_func(lambda e, x: e(op.variance(x)), (64, 40, "float32"))
    x = np.zeros((64, 40))
    x[33, 7] = value
    with np.errstate(all="ignore"):
        (got,), (want,) = computed(func, parts_of(func), [x]), interpret(func, [x])
    assert np.isnan(got) and np.isnan(want)
