"""Slices of symbolic axes, read and replaced, as torch clamps them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ..test_torch_edges import agrees
from ..test_torch_programs import check

Dim = torch.export.Dim


@pytest.mark.parametrize(("first", "second"), [(5, 4), (20, 9)])
def test_slices_of_a_symbolic_axis_are_clamped(first: int, second: int) -> None:
    """The last seven elements of five are all five, from index 0 and not from -2."""

    def net(x: Any) -> Any:
        return x[:, -7:] + 1, x[:, -7:-2] + 1, x[:, -7::2] + 1, x[:, -1] + 1, x[:, 1:] + 1

    check(net, *((torch.randn(2, k),) for k in (first, second)), shapes=({1: Dim.DYNAMIC},))


def test_a_replaced_slice_of_a_symbolic_axis_is_clamped() -> None:
    def net(x: Any, y: Any) -> Any:
        return torch.slice_scatter(x, y, 1, -7) + 1

    n = Dim.DYNAMIC
    runs = [(torch.randn(2, k), torch.randn(2, k)) for k in (5, 3)]
    check(net, *runs, shapes=({1: n}, {1: n}))


def test_indices_of_symbolic_sizes_count_from_the_end() -> None:
    """`-k` is a size with a sign: what it indexes depends on the extent of its axis."""

    def net(x: Any, y: Any) -> Any:
        k = y.shape[0]
        z = torch.slice_scatter(x, x[k:] * 2, 0, k)
        return x[-k] + 1, x[k:] + 1, x[-k:-1] + 1, x[-k::2] + 1, z

    n = Dim.DYNAMIC
    runs = [(torch.randn(a, 3), torch.randn(b, 2)) for a, b in ((8, 3), (7, 4), (11, 5))]
    check(net, *runs, shapes=({0: n}, {0: n}))


def test_no_elements_behind_the_end_of_a_symbolic_axis_are_replaced() -> None:
    def net(x: Any) -> Any:
        return torch.slice_scatter(x, torch.ones(0, 3), 0, 10, 12) + 1

    runs = [(torch.randn(k, 3),) for k in (6, 3)]
    check(net, *runs, shapes=({0: Dim.DYNAMIC},))


def test_every_kth_element_of_an_axis_is_replaced() -> None:
    def net(x: Any, y: Any) -> Any:
        z = x.clone()
        z[1::3, :7] = y
        z[:, 6::2] = 7.0
        z[:, 1:3:2] = z[:, 1:3:2] * 2  # one element, and places of the same step behind it
        z[0, 1:7:2] = z[0, 2:8:2] + 1
        return z

    check(net, (torch.randn(8, 9), torch.randn(3, 7)))


def test_every_kth_element_of_a_symbolic_axis_is_replaced() -> None:
    def net(x: Any) -> Any:
        z = x.clone()
        z[:, -7::2] = 7.0
        z[:, 1:6:3] = z[:, 1:6:3] * 2
        return torch.slice_scatter(z, torch.ones(2, 0), 1, 30, 40, 2)

    runs = [(torch.randn(2, k),) for k in (9, 7, 20)]  # torch asserts 7 or more
    check(net, *runs, shapes=({1: Dim.DYNAMIC},))


def test_splits_by_symbolic_sizes() -> None:
    """As ProphetNet divides its streams."""

    def net(x: Any) -> Any:
        n = x.shape[1] // 3
        first, second, rest = x.split([n, 1, x.shape[1] - n - 1], dim=-1)
        a, b = x.split([3, 2])
        return first + 1, second * 2, rest - 1, a[:2] + b

    check(net, (torch.randn(5, 9),), (torch.randn(5, 13),), shapes=({1: Dim.DYNAMIC},))


def test_splits_with_empty_parts() -> None:
    """TVM's operator refuses them."""

    def parts(x: Any) -> Any:
        return tuple(part * 2 for part in (*x.split([0, 3, 1], 1), *x.split([4, 0], 1)))

    agrees(parts, (torch.randn(6, 4),), (torch.randn(2, 4),), shapes=({0: Dim("n")},))
