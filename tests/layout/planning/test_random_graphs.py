"""Random graphs, planned: the same results. More: ``python -m benchmarks.layout_fuzz``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .. import equal
from ..random_graphs import case

SETTINGS = settings(
    max_examples=4, deadline=None, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@SETTINGS
@given(st.integers(0, 10_000))
def test_plans_compute_the_same(seed: int) -> None:
    equal.check(case(seed, 4, 9))


@pytest.mark.parametrize("seed", [22, 101, 102])
def test_bindings_of_several_blocks(seed: int) -> None:
    """Conversions are where all that read them see them."""
    equal.check(case(seed))


def test_a_difference_is_found() -> None:
    one = [np.zeros((2, 2), "float32")]
    with pytest.raises(equal.Different, match="1 of 4"):
        equal.compare(one, [np.array([[0, 0], [0, 1]], "float32")])
    with pytest.raises(equal.Different, match="results of"):
        equal.compare(one, [np.zeros((4,), "float32")])
    assert not equal.compare(one, [np.full((2, 2), 1e-6, "float32")])
