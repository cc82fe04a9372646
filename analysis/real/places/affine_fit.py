"""Coordinates of elements as affine functions of places and of other coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ...terms.term import Int, Load, TensorVar, Var
from .written_out import WrittenOut

Column = npt.NDArray[np.int64]
#: The greatest divisor of an affine function, such as the stride of a transposed convolution.
_MOST_DIVISOR = 16


@dataclass(frozen=True)
class Points:
    """The elements of all places.

    Attributes:
        axes: The coordinates of a place.
        places: int64[points, axes].
        tensors: The tensors of a product, in order.
        indices: For each tensor, int64[points, rank]; 0 for a dimension in ``whole``.
        whole: For each tensor and dimension, the coordinate that is the whole index, if one is.
        coefficient: That of every product.
    """

    axes: tuple[Var, ...]
    places: Column
    tensors: tuple[TensorVar, ...]
    indices: tuple[Column, ...]
    whole: tuple[tuple[Int | None, ...], ...]
    coefficient: Fraction


@dataclass(frozen=True)
class Affine:
    """``(Σ factors * columns + start) / divisor``."""

    factors: tuple[int, ...]
    start: int
    divisor: int


@dataclass(frozen=True)
class Window:
    """``Σ factors * columns + start + r`` for ``r < count``."""

    factors: tuple[int, ...]
    start: int
    count: int


def points_of(table: WrittenOut) -> Points | None:
    """Return the points of a table whose products differ in indices only; else None."""
    products = [(p, m, c) for p, elements in table.table.items() for m, c in elements.items()]
    if not products or len({c for _, _, c in products}) > 1:
        return None
    tensors = tuple(x.tensor for x in products[0][1])
    if not tensors or len(set(tensors)) < len(tensors):
        return None
    if any(tuple(x.tensor for x in m) != tensors for _, m, _ in products):
        return None
    whole = tuple(tuple(_whole(i) for i in x.indices) for x in products[0][1])
    rows: list[list[list[int]]] = [[] for _ in tensors]
    for _, mono, _ in products:
        for k, element in enumerate(mono):
            row = _row(element, whole[k])
            if row is None:
                return None
            rows[k].append(row)
    coefficient = products[0][2]
    if Fraction(float(coefficient)) != coefficient:
        return None
    places = np.array([p for p, _, _ in products], np.int64).reshape(len(products), -1)
    indices = tuple(np.array(r, np.int64).reshape(len(products), -1) for r in rows)
    return Points(table.axes, places, tensors, indices, whole, coefficient)


def _whole(index: Int) -> Int | None:
    return index if isinstance(index.atom, Var) else None


def _row(element: Load, whole: Sequence[Int | None]) -> list[int] | None:
    row: list[int] = []
    for index, expected in zip(element.indices, whole, strict=True):
        if index.const is None and index is not expected:
            return None
        if expected is not None and index is not expected:
            return None
        row.append(index.const or 0)
    return row


def affine(columns: Sequence[Column], values: Column) -> Affine | None:
    """Return the values as an affine function of columns at all points; else None."""
    if not columns:
        return Affine((), int(values[0]), 1) if np.all(values == values[0]) else None
    matrix = np.stack([*columns, np.ones_like(values)], axis=1)
    solution = np.linalg.lstsq(matrix.astype(float), values.astype(float), rcond=None)[0]
    for divisor in range(1, _MOST_DIVISOR + 1):
        factors = np.rint(solution * divisor).astype(np.int64)
        if np.all(matrix @ factors == values * divisor):
            return Affine(tuple(map(int, factors[:-1])), int(factors[-1]), divisor)
    return None


def window(columns: Sequence[Column], values: Column) -> Window | None:
    """Return the window that the values fill beside one moving column; None if none moves it."""
    best: Window | None = None
    for k, column in enumerate(columns):
        for step in _steps(column, values):
            rest = values - step * column
            least, most = bounds(rest)
            if best is None or most - least + 1 < best.count:
                factors = tuple(step * (j == k) for j in range(len(columns)))
                best = Window(factors, least, most - least + 1)
    return best


def _steps(column: Column, values: Column) -> set[int]:
    """How far the least or the greatest value moves from one place to the next."""
    ends = [bounds(values[column == place]) for place in np.unique(column)]
    steps = {b[k] - a[k] for a, b in pairwise(ends) for k in (0, 1)}
    return steps - {0}


def bounds(column: Column) -> tuple[int, int]:
    """Return the least and the greatest value."""
    return int(column.min()), int(column.max())
