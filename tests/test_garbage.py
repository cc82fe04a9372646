"""Tests of the garbage collector's thresholds during work."""

import gc
from collections.abc import Iterator

import pytest

from opinfo.analysis.support.garbage import RARE, rare_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    former = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*former)


def test_thresholds_return_after_the_last_context() -> None:
    with rare_collections():
        with rare_collections():
            assert gc.get_threshold() == RARE
        assert gc.get_threshold() == RARE
    assert gc.get_threshold() == (700, 10, 10)


def test_thresholds_return_after_an_error() -> None:
    @rare_collections()
    def work() -> None:
        assert gc.get_threshold() == RARE
        raise KeyError

    for _ in range(2):  # a decorator is entered once a call
        with pytest.raises(KeyError):
            work()
        assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (10**6, 3, 3)])
def test_a_collector_that_is_off_or_rare_is_left_alone(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with rare_collections():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_thresholds_that_are_set_meanwhile_stay() -> None:
    with rare_collections():
        gc.set_threshold(999, 9, 9)
    assert gc.get_threshold() == (999, 9, 9)
