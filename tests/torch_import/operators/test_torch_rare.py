"""Rare operators of torch, and their edges: each result as torch computes it, or a failing call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from tests.torch_import.test_torch_edges import agrees, machine
from tests.torch_import.test_torch_programs import imported

NAN, INF = float("nan"), float("inf")
ROWS, COLUMNS = Dim("rows", min=1, max=64), Dim("columns", min=1, max=64)


def test_truth_values_are_added_and_reduced_at_positions() -> None:
    x, places = torch.tensor([True, False, True, False]), torch.tensor([0, 1, 1])
    values = torch.tensor([False, True, False])

    def updates(x: Any, at: Any, v: Any) -> Any:
        return (x.index_put((at,), v, accumulate=True), x.index_add(0, at, v),
                x.scatter_add(0, at, v), x.put(at, v, accumulate=True),
                x.scatter_reduce(0, at, v, "prod"), x.scatter_reduce(0, at, v, "amax"),
                x.scatter(0, at, v))  # fmt: skip

    agrees(updates, (x, places, values))
    agrees(lambda x, m: (x.index_put((m,), torch.tensor(True), accumulate=True),), (x, x))


def test_largest_elements_with_positions_keep_nan() -> None:
    def pools(x: Any) -> Any:
        return (*F.max_pool2d(x, 2, return_indices=True),
                *F.max_pool2d(x, (2, 4), return_indices=True),
                *F.adaptive_max_pool2d(x, (1, 3), return_indices=True))  # fmt: skip

    x = torch.tensor([[NAN, 1, 2, NAN], [4, NAN, NAN, 3], [-INF, -INF, 1, NAN], [-INF, -INF, 2, 2]])
    agrees(pools, (x[None, None],))


def test_what_differs_from_itself_is_nan() -> None:
    """TVM simplifies `x == x` to true; torch decomposes `nanmean` into it."""

    def tests(x: Any, n: Any) -> Any:
        return x == x, x != x, x[:2].nanmean(1), x.nansum(0), n == n, n != n

    x = torch.tensor([[NAN, 1, INF], [2, NAN, NAN], [0, -1, 3]])
    args = (x, torch.arange(3))
    got = opinfo.compile(imported(tests, args), []).run(*(a.numpy() for a in args))
    for ours, theirs in zip(got, tests(*args), strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), theirs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_offsets_of_bags_that_do_not_rise_to_the_count_fail(mode: str) -> None:
    table, rows = torch.randn(10, 4), torch.tensor([1, 2, 3, 4, 5])

    def bags(rows: Any, offsets: Any) -> Any:
        return (F.embedding_bag(rows, table, offsets, mode=mode),)

    good = torch.tensor([0, 2, 2])
    agrees(bags, (rows, good), (rows, torch.tensor([0, 5, 5])), shapes=({0: ROWS}, None))
    call = machine(bags, (rows, good))
    wrong = {"first": [1, 2, 3], "below": [0, 3, 2], "beyond": [0, 2, 6], "one before": [0, -1, 2]}
    for text, offsets in wrong.items():
        with pytest.raises(Exception, match=text):
            call(rows, torch.tensor(offsets))


def test_an_end_of_bags_is_the_count() -> None:
    table, rows = torch.randn(10, 4), torch.tensor([1, 2, 3, 4, 5])

    def bags(rows: Any, offsets: Any) -> Any:
        return (F.embedding_bag(rows, table, offsets, include_last_offset=True),)

    agrees(bags, (rows, torch.tensor([0, 2, 5])))
    agrees(bags, (rows, torch.tensor([0])))
    with pytest.raises(Exception, match="not the number of indices"):
        machine(bags, (rows, torch.tensor([0, 2, 5])))(rows, torch.tensor([0, 2, 4]))


def test_numbers_of_sizes() -> None:
    def scaled(x: Any) -> Any:
        n, m = x.shape
        ratio = (n / m) ** 0.25
        return (x * n**-0.5, x / n**0.5, x * ratio, x * 2.0**-n, x / (1.3 * n + 0.7),
                torch.full((2, n), n**0.5), x * torch.sym_sqrt(n))  # fmt: skip

    agrees(scaled, (torch.randn(6, 3),), (torch.randn(9, 2),), shapes=({0: ROWS, 1: COLUMNS},))


def test_evaluated_rrelu() -> None:
    agrees(lambda x: (F.rrelu(x), F.rrelu(x, 0.1, 0.3)), (torch.tensor([-2.0, 0.0, 3.0, NAN]),))


def test_most_frequent_elements() -> None:
    def modes(x: Any) -> Any:
        return (*torch.mode(x, -1), *torch.mode(x, 0, keepdim=True))

    agrees(modes, (torch.tensor([[1, 2, 2, 1], [3, 3, 3, 0]]),),
           (torch.tensor([[1, 5, 5, 1]] * 3),), shapes=({0: ROWS},))  # fmt: skip
    agrees(lambda x: (*torch.mode(x),), (torch.tensor(3),))
    x = torch.tensor([[1.0, 2, 2, 1], [NAN, NAN, 0, 0], [4, NAN, 2, 3], [NAN] * 4])
    agrees(lambda x: (torch.mode(x, -1).values,), (x,))


def test_bessel_functions() -> None:
    numbers = torch.tensor([0.0, 1.0, -2.0, 3.75, 10.0, 50.0, -80.0, NAN])
    agrees(lambda x: (torch.i0(x), torch.special.i0e(x)), (numbers,))
    for x in (0.5, 3.0, 5.0, 20.0):  # the series sum((x / 2)**2k / k!**2)
        series = math.fsum(math.exp(2 * k * math.log(x / 2) - 2 * math.lgamma(k + 1))
                           for k in range(80))  # fmt: skip
        (got,) = machine(lambda x: (torch.i0(x),), (torch.tensor(x),))(torch.tensor(x))
        assert float(got) == pytest.approx(series, rel=1e-6)


def test_recurrent_layers_of_float64() -> None:
    layer = nn.LSTM(3, 4, bias=False, bidirectional=True).double().eval()
    agrees(lambda x: (lambda y, s: (y, *s))(*layer(x)), (torch.randn(5, 2, 3).double(),))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_sorts_take_nan_for_the_largest(dtype: torch.dtype) -> None:
    def sorts(x: Any) -> Any:
        return (*torch.sort(x, dim=-1, stable=True),
                *torch.sort(x, dim=-1, descending=True, stable=True),
                *torch.kthvalue(x, 3))  # fmt: skip

    rows = [[1.0, NAN, 3, INF, -INF, 2], [NAN, NAN, 1, 1, 0, -0.0]]
    agrees(sorts, (torch.tensor(rows, dtype=dtype),))


@pytest.mark.parametrize("largest", [True, False])
def test_nan_is_among_the_largest_elements(largest: bool) -> None:
    x = torch.tensor([[NAN, 1, -INF, 0.0, INF, 2], [0.0, -2, 5, 1, NAN, 3]])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        agrees(lambda x: tuple(x.topk(3, largest=largest)), (x.to(dtype),), (x.flip(1).to(dtype),))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int8])
def test_the_largest_of_short_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([[5, 100, 3, 7, -1, 0]], dtype=dtype)
    agrees(lambda x: (*x.topk(3), *x.topk(2, largest=False)), (x,))


def test_an_empty_index_writes_nothing() -> None:
    def updates(x: Any, at: Any, rows: Any) -> Any:
        return (x.index_add(0, at, rows), x.index_copy(0, at, rows), x.index_fill(0, at, 2.0),
                x.index_put((at,), rows))  # fmt: skip

    at, rows = torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3)
    agrees(updates, (torch.arange(12.0).reshape(4, 3), at, rows))


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
def test_fmax_takes_the_number_and_maximum_takes_nan() -> None:
    def extremes(x: Any, y: Any) -> Any:
        return (torch.fmax(x, y), torch.fmin(x, y), torch.maximum(x, y), torch.minimum(x, y),
                x.clamp(min=y))  # fmt: skip

    x, y = torch.tensor([NAN, 1, NAN, 2, 3]), torch.tensor([1, NAN, NAN, 1, 4.0])
    got = opinfo.compile(imported(extremes, (x, y)), []).run(x.numpy(), y.numpy())
    for result, expected in zip(got, extremes(x, y), strict=True):
        np.testing.assert_array_equal(result, expected)
