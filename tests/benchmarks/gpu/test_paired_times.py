"""`benchmarks.gpu.paired_times`: ratios of times in several places."""

from __future__ import annotations

import pytest

from benchmarks.gpu.paired_times import Ratio, median_of, ratio_of


def test_a_ratio_is_of_places_by_their_rounds() -> None:
    """Both sides of a round are slower together; a place is slower for one side."""
    theirs = [[10.0, 20.0, 40.0], [10.0, 10.0, 10.0], [8.0, 8.0, 8.0]]
    ours = [[9.0, 18.0, 36.0], [11.0, 11.0, 30.0], [8.0, 8.0, 8.0]]
    found = ratio_of(ours, theirs)
    assert (found.low, found.value, found.high) == pytest.approx((0.9, 1.0, 1.1))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.9, 0.99, "faster"), (1.01, 1.02, "slower"), (0.99, 1.01, "equal"), (1.0, 1.1, "equal"),
     (0.9, 1.0, "equal")],
)  # fmt: skip
def test_a_verdict_needs_all_places(low: float, high: float, verdict: str) -> None:
    assert Ratio((low + high) / 2, low, high).verdict == verdict


def test_a_median_is_of_all_places() -> None:
    assert median_of([[1.0, 2.0], [3.0, 9.0, 9.0]]) == 3.0


def test_sides_have_the_same_places() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio_of([[1.0]], [[1.0], [1.0]])
