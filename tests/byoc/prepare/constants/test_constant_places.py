"""Stores at constant places become reads: the same elements, and what stays a scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.matching.lowered import read
from opinfo.byoc.prepare.prepare import prepare

from ....common.run import run
from ....layout import nets

op = relax.op
Points = list[Any]


def _stored(shape: tuple[int, ...], points: Points, reduction: str = "update") -> Any:
    places = np.array(points, "int64")
    rows = (*places.shape[:-1], *shape[places.shape[-1] :])
    return nets.net(lambda e, r, x, u: e(op.scatter_nd(x, relax.const(places), u, reduction)),
                    shape, rows, legal=False)  # fmt: skip


def _scatters(mod: Any) -> bool:
    return any("scatter" in o.name for o in read(prepare(mod), "test").ops)


@pytest.mark.parametrize(("shape", "points"), [
    ((4,), [[2]]), ((3, 5), [[1, 4]]), ((3, 5), [[2], [0]]), ((2, 3, 2), [[[1, 2], [0, 0]]]),
    ((4,), [[1], [3], [1]])])  # fmt: skip
def test_it_reads_what_is_stored_last(shape: tuple[int, ...], points: Points) -> None:
    mod = _stored(shape, points)
    assert not _scatters(mod)
    places = np.array(points)
    rng = np.random.default_rng(0)
    x = rng.random(shape, "float32")
    u = rng.random((*places.shape[:-1], *shape[places.shape[-1] :]), "float32")
    expected = x.copy()
    for at in np.ndindex(places.shape[:-1]):
        expected[tuple(places[at])] = u[at]
    np.testing.assert_array_equal(run(prepare(mod), [x, u])[0], expected)


@pytest.mark.parametrize(("shape", "points", "reduction"), [
    ((4,), [[2]], "add"),  # a sum
    ((4,), [[4]], "update"),  # outside
    ((5000,), [[2]], "update"),  # large
])  # fmt: skip
def test_other_scatters_stay(shape: tuple[int, ...], points: Points, reduction: str) -> None:
    assert _scatters(_stored(shape, points, reduction))
