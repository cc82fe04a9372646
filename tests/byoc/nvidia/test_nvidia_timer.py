"""Times of ways to compute the same, from CUDA graphs of a stand-in for CUDA's runtime."""

from __future__ import annotations

import ctypes

import pytest

from opinfo.byoc.backends.nvidia.libraries.source import library_headers

from .nvidia_library import stub_library

#: A way takes so many milliseconds, and fails from its ``last`` launch on.
HARNESS = """
struct Way { float time; int last; };
extern "C" int race(const Way* ways, int count, int finals, int* launched, float* times) {
  GraphTimer timer;
  std::vector<GraphTimer::Launch> launches;
  for (int k = 0; k < count; ++k)
    launches.push_back([=] {
      stub::elapsed = ways[k].time;
      return ++launched[k] < ways[k].last;
    });
  const int before = stub::launches;
  const std::vector<float> found = timer.race(launches, 3, 20, finals);
  std::copy(found.begin(), found.end(), times);
  return stub::launches - before;
}
"""
NEVER = 1000


class Way(ctypes.Structure):
    _fields_ = (("time", ctypes.c_float), ("last", ctypes.c_int))


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    text = f"{library_headers(None)}\nusing namespace opinfo_nvidia;\n{HARNESS}"
    return ctypes.CDLL(str(stub_library(text)))


def race(library: ctypes.CDLL, *ways: tuple[float, int]) -> tuple[list[float], list[int]]:
    """The times, and how often each way was launched."""
    count = len(ways)
    times, launched = (ctypes.c_float * count)(), (ctypes.c_int * count)()
    library.race((Way * count)(*ways), count, 0, launched, times)
    return list(times), list(launched)


@pytest.mark.parametrize(("finals", "replays"), [(0, 12), (4, 20)])
def test_ways_that_few_rounds_do_not_tell_apart_get_more(
    library: ctypes.CDLL, finals: int, replays: int
) -> None:
    """A graph is replayed twice, then in two rounds; two of three ways are near the fastest."""
    ways = (Way * 3)((1.0, NEVER), (1.04, NEVER), (1.2, NEVER))
    times, launched = (ctypes.c_float * 3)(), (ctypes.c_int * 3)()
    assert library.race(ways, 3, finals, launched, times) == replays
    assert list(times) == pytest.approx([1.0, 1.04, 1.2])


def test_short_ways_are_repeated_in_a_graph(library: ctypes.CDLL) -> None:
    # The stand-in's graphs take as long as their last call: a call is a part of it.
    times, launched = race(library, (0.05, NEVER), (0.09, NEVER), (0.001, NEVER))
    assert launched == [2 + 4, 2 + 2, 2 + 20]
    assert times == pytest.approx([0.05 / 4, 0.09 / 2, 0.001 / 20])


def test_what_takes_much_longer_is_timed_by_a_launch(library: ctypes.CDLL) -> None:
    times, launched = race(library, (1.0, NEVER), (0.4, NEVER), (0.9, NEVER))
    assert launched == [2 + 1, 2 + 1, 2]
    assert times == pytest.approx([1.0, 0.4, 0.9])


def test_a_way_that_fails_has_no_time(library: ctypes.CDLL) -> None:
    times, launched = race(library, (1.0, 1), (1.0, 2), (0.05, 4), (0.08, NEVER))
    assert times == pytest.approx([-1.0, -1.0, -1.0, 0.04]) and launched == [1, 2, 4, 4]
