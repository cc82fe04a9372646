"""The comparison of programs with torch sees what is not a number."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.shapes.programs import difference

_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "expected", "apart"),
    [
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([_NAN, 2.0], [1.0, 2.0], _INF),
        ([_NAN, 2.0], [_NAN, 2.0], 0.0),
        ([_INF, 2.0], [-_INF, 2.0], _INF),
        ([1.0, 2.0], [_NAN, 2.0], _INF),
    ],
)
def test_a_nan_is_a_difference_unless_both_have_it(
    got: list[float], expected: list[float], apart: float
) -> None:
    """A NaN is a difference, but where torch has one."""
    assert difference(np.array(got, "float32"), np.array(expected, "float32")) == apart


def test_differences_of_integers() -> None:
    """Integers are compared exactly, and their dtypes are compared."""
    big = np.array([2**60 + 1])
    assert difference(big, big - 1) == _INF
    assert difference(big, big.copy()) == 0.0
    with pytest.raises(ValueError, match=r"int32\[1\], expected int64\[1\]"):
        difference(np.array([1], "int32"), np.array([1]))
