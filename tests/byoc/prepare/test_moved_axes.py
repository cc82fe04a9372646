"""Tensors in moved axes of the same memory: the elements are those that numpy moves."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from opinfo.byoc.backends.common.moved_axes import Strided, common_steps, moved

from ...models.weights import Array


def _elements(place: Any, data: Array) -> Array:
    """The elements of a tensor in the memory of an array, digit by digit."""
    digits = [d for axis in place.axes for d in axis]
    size = data.itemsize
    view = as_strided(data.reshape(-1), [e for e, _ in digits], [s * size for _, s in digits])
    return view.reshape(place.shape)


@pytest.mark.parametrize(("shape", "moves"), [
    ((2, 12, 30), [(2, 12, 5, 6), "0213", (10, 12, 6)]),
    ((6, 8), [(2, 3, 8), "120", (24, 2), (2, 12, 2), "201"]),
    ((13, 16), [(2, 13, 8), "021"]),
    ((1, 5, 1), ["201", (5, 1), (1, 1, 5, 1)]),
    ((64, 6), ["10", (2, 3, 64), (6, 8, 8), (3, 2, 64)]),
])  # fmt: skip
def test_moves_are_those_of_numpy(
    shape: tuple[int, ...], moves: list[str | tuple[int, ...]]
) -> None:
    data = np.arange(prod(shape)).reshape(shape)
    place: Strided | None = Strided.plain(shape)
    expected = data
    for move in moves:
        assert place is not None
        if isinstance(move, str):
            order = [int(k) for k in move]
            place, expected = place.permuted(order), expected.transpose(order)
        else:
            place, expected = place.reshaped(move), expected.reshape(move)
    assert place is not None
    assert np.array_equal(_elements(place, data), expected)


def test_random_moves_are_those_of_numpy() -> None:
    rng, taken, refused = np.random.default_rng(0), 0, 0
    for _ in range(400):
        shape = tuple(rng.integers(1, 7, rng.integers(1, 4)).tolist())
        data = np.arange(prod(shape)).reshape(shape)
        place, expected = Strided.plain(shape), data
        for _ in range(3):
            order = rng.permutation(len(place.axes)).tolist()
            place, expected = place.permuted(order), expected.transpose(order)
            factors = rng.permutation(
                [f for e in place.shape if isinstance(e, int) for f in _factors(e)]
            ).tolist()
            cut = int(rng.integers(0, len(factors) + 1))
            new = (prod(factors[:cut]), prod(factors[cut:]))
            reshaped = place.reshaped(new)
            if reshaped is None:
                refused += 1
                break
            place, expected = reshaped, expected.reshape(new)
            assert np.array_equal(_elements(place, data), expected)
            taken += 1
    assert taken > 100 and refused > 50


def _factors(extent: int) -> list[int]:
    return next(([k, *_factors(extent // k)] for k in (2, 3, 5) if extent % k == 0), [])


def test_a_shape_that_divides_no_axis_is_refused() -> None:
    turned = Strided.plain((4, 6)).permuted((1, 0))
    assert turned.reshaped((4, 6)) is None
    assert turned.reshaped((5, 5)) is None and turned.reshaped((4,)) is None
    assert turned.reshaped((2, 3, 4)) is not None


def test_the_step_of_an_axis() -> None:
    turned = Strided.plain((4, 6, 5)).permuted((1, 0, 2))
    joined = turned.reshaped((24, 5))
    assert joined is not None
    assert [turned.step(k) for k in range(3)] == [5, 30, 1]
    assert (joined.step(0), joined.step(1)) == (None, 1)
    repeated = Strided.plain((6, 1)).broadcast((2, 6, 3))
    assert [repeated.step(k) for k in range(3)] == [0, 1, 0] and repeated.shape == (2, 6, 3)


@pytest.mark.parametrize(("axis", "times"), [(0, 3), (1, 4), (-1, 2), (2, 1)])
def test_repeats_are_those_of_numpy(axis: int, times: int) -> None:
    shape = (2, 3, 5)
    data, attrs = np.arange(30).reshape(shape), {"repeats": times, "axis": axis}
    expected = data.repeat(times, axis)
    place = moved(Strided.plain(shape), "relax.repeat", attrs, expected.shape)
    assert place is not None and np.array_equal(_elements(place, data), expected)
    flat = {"repeats": 2, "axis": None}
    assert moved(Strided.plain(shape), "relax.repeat", flat, (60,)) is None


def test_common_axes_of_tensors() -> None:
    by_head = Strided.plain((2, 3, 4)).permuted((1, 0, 2))  # axes of 3 and 2 elements, apart
    one = tuple(d for axis in by_head.axes[:2] for d in axis)
    assert common_steps([one, ((6, 10),)]) == ((3, 2), ((4, 12), (20, 10)))
    assert common_steps([((6, 5),), ((6, 10),)]) == ((6,), ((5,), (10,)))
    assert common_steps([((2, 15), (3, 5)), ((6, 0),)]) == ((6,), ((5,), (0,)))
    assert common_steps([(), ()]) == ((), ((), ()))
    assert common_steps([((2, 7), (3, 1)), ((3, 9), (2, 1))]) is None
