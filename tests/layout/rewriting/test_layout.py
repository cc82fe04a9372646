"""Layouts: strings, physical shapes, coordinates, what is the same memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from opinfo.analysis.index_map import invert
from opinfo.layout import Digit, Layout


@pytest.mark.parametrize(
    ("text", "shape", "physical"),
    [
        ("NCHW", (2, 6, 5, 7), (2, 6, 5, 7)),
        ("NHWC", (2, 6, 5, 7), (2, 5, 7, 6)),
        ("NCHW4c", (2, 6, 5, 7), (2, 2, 5, 7, 4)),
        ("OIHW4i16o", (32, 8, 3, 3), (2, 2, 3, 3, 4, 16)),
        ("NCHW2c4c", (1, 24, 2, 2), (1, 3, 2, 2, 2, 4)),
        ("NWC", (1, 8, 9), (1, 9, 8)),
    ],
)
def test_physical_shape(text: str, shape: tuple[int, ...], physical: tuple[int, ...]) -> None:
    assert Layout.parse(text).physical(shape) == physical


@pytest.mark.parametrize("text", ["NCHW", "NHWC", "NCHW4c", "NCHW2c4c", "NDHWC", "AB"])
def test_a_string_is_read_and_written(text: str) -> None:
    assert Layout.parse(text).spell() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NCH4", "letters and factors"),
        ("NCHHW", "before its axis"),
        ("4cNCHW", "before its axis"),
        ("nCHW", "is not an axis or split axis of"),
        ("", "letters and factors"),
        ("NCHW0c", "is not an axis or split axis of"),
    ],
)
def test_an_invalid_layout_string_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout.parse(text)


def test_digits_that_are_not_an_axis_are_refused() -> None:
    with pytest.raises(ValueError, match="does not consist of its digits"):
        Layout(((Digit(0, 8),), (Digit(0, 1, 4),)))
    with pytest.raises(ValueError, match="expected digits of the axes"):
        Layout(((Digit(1),),))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout, tuple[int, ...]]:
    """A layout of up to 3 axes, each in up to 3 digits, in any order and grouping, and a shape."""
    digits, shape = [], []
    for axis in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(2, 4), max_size=2))
        place = 1
        for size in sizes:
            digits.append(Digit(axis, place, size))
            place *= size
        digits.append(Digit(axis, place))
        shape.append(draw(st.integers(1, 2 * place + 1)))
    mixed = draw(st.permutations(digits))
    cuts = draw(st.lists(st.booleans(), min_size=len(mixed), max_size=len(mixed)))
    dims: list[list[Digit]] = []
    for d, cut in zip(mixed, cuts, strict=True):
        if cut or not dims:
            dims.append([])
        dims[-1].append(d)
    return Layout(tuple(map(tuple, dims))), tuple(shape)


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_backward_undoes_forward_and_places_are_distinct(
    case: tuple[Layout, tuple[int, ...]],
) -> None:
    layout, shape = case
    index = np.indices(shape)
    places = np.broadcast_arrays(*layout.forward(list(index), shape))
    for p, e in zip(places, layout.physical(shape), strict=True):
        assert p.min() >= 0 and p.max() < e
    assert len({*zip(*(p.ravel() for p in places), strict=True)}) == index[0].size
    for logical, back in zip(index, layout.backward(places, shape), strict=True):
        np.testing.assert_array_equal(logical, np.broadcast_to(back, shape))
    assert layout.padded(shape) == (np.prod(layout.physical(shape)) > np.prod(shape))


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_moved_arrays_and_equal_orders(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    array = np.arange(np.prod(shape)).reshape(shape) + 1
    moved = layout.move(array)
    places = layout.forward(list(np.indices(shape)), shape)
    np.testing.assert_array_equal(moved[tuple(np.broadcast_arrays(*places))], array)
    assert np.count_nonzero(moved) == array.size
    if not layout.padded(shape):
        same = np.array_equal(moved.ravel(), array.ravel())
        assert same == (layout.order(shape) == Layout.identity(len(shape)).order(shape))


@settings(max_examples=30, deadline=None)
@given(layouts())
def test_the_index_map_is_injective(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    found = invert(layout.index_map(shape), list(shape))
    assert found.verdict in ("bijective", "injective")


def test_symbolic_extents() -> None:
    n = tirx.Var("n", "int64")
    layout = Layout.parse("NHWC")
    assert layout.physical((n, 3, 8, 8))[0] is n
    assert not layout.padded((n, 3, 8, 8))
    assert Layout.parse("NCHW4c").padded((1, n, 8, 8))
    assert layout.order((n, 3, 1, 1)) == Layout.identity(4).order((n, 3, 1, 1))


@pytest.mark.parametrize("text", ["NCHW", "NHWC", "NCHW4c", "NCHW2c4c"])
def test_an_index_map_is_read_again(text: str) -> None:
    layout = Layout.parse(text)
    assert Layout.from_index_map(layout.index_map((2, 16, 5, 7)), (2, 16, 5, 7)) == layout


def test_padding_between_digits_is_other_memory() -> None:
    packed = Layout.parse("NC4cHW")
    assert packed.order((2, 6, 4, 4)) != Layout.identity(4).order((2, 6, 4, 4))
    assert packed.order((2, 8, 4, 4)) == Layout.identity(4).order((2, 8, 4, 4))


def test_a_map_that_does_not_consist_of_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves out an axis"):
        Layout.from_index_map(tirx.IndexMap.from_func(lambda i, j: [i]), (4, 4))
    with pytest.raises(ValueError, match="does not consist of digits"):
        Layout.from_index_map(tirx.IndexMap.from_func(lambda i: [(i + 3) % 10]), (10,))
    with pytest.raises(ValueError, match="does not consist of its digits"):
        Layout.from_index_map(tirx.IndexMap.from_func(lambda i: [i % 4]), (16,))


def test_an_array_of_rank_0_stays_one() -> None:
    assert Layout.identity(0).move(np.array(3.0)).shape == ()
