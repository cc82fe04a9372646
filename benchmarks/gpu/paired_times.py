"""Times of several ways to compute the same on a GPU, in turns, and ratios with their spread.

The same kernel takes up to two percent more or less by where its tensors are, since addresses
decide over channels of memory and slices of the cache, and no number of rounds in one place shows
that. So each way is timed in several places. A ratio is the median of those of places, and its
interval goes from the smallest to the largest one: of six independent places, it holds the true
median with 97 % probability, whatever the distribution (David and Nagaraja: Order Statistics).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: Places, and rounds in each.
PLACES, ROUNDS = 6, 15
#: Milliseconds of a graph, and its fewest and most calls.
GRAPH, FEWEST, MOST = 1.0, 5, 200

Times = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Ratio:
    """A median ratio of times, and the bounds of its interval."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, or ``equal`` if the interval holds 1."""
        return "faster" if self.high < 1.0 else "slower" if self.low > 1.0 else "equal"


def ratio_of(ours: Times, theirs: Times) -> Ratio:
    """Return the ratio of times, by place and round, in any unit.

    A place's ratio is the median of those of its rounds: a round replays both one after the other.
    """
    ratios = [statistics.median(a / b for a, b in zip(x, y, strict=True))
              for x, y in zip(ours, theirs, strict=True)]  # fmt: skip
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def median_of(times: Times) -> float:
    """Return the median of all places and rounds."""
    return statistics.median(t for place in times for t in place)


def times_of(ways: Sequence[Sequence[Callable[[], Any]]], rounds: int = ROUNDS) -> list[Times]:
    """Return microseconds of a call by way, place and round.

    A round replays a graph of each way; the first way of a round is that after the first of the
    round before, as a way may leave the clocks of the device lower for the next.

    Args:
        ways: The calls of each way, one for each place.
        rounds: How many rounds each place has.
    """
    graphs = [[graphed(call) for call in places] for places in ways]
    times: list[list[list[float]]] = [[[] for _ in places] for places in ways]
    count = len(ways)
    for number in range(-2, rounds):  # the first two are of an idle device
        for place in range(len(ways[0])):
            for way in ((number + place + k) % count for k in range(count)):
                replay, calls = graphs[way][place]
                spent = milliseconds(replay) / calls * 1e3
                if number >= 0:
                    times[way][place].append(spent)
    return list(times)


def graphed(call: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
    """Return the replay of a CUDA graph of many calls, and their number."""
    once = captured(call, FEWEST)
    once()
    count = max(FEWEST, min(MOST, int(GRAPH / max(milliseconds(once) / FEWEST, 1e-4))))
    return captured(call, count), count


def milliseconds(run: Callable[[], Any]) -> float:
    """Return what the device needs for what ``run`` launches."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def captured(call: Callable[[], Any], count: int) -> Callable[[], Any]:
    """Return the replay of a CUDA graph of so many calls."""
    import torch
    import tvm_ffi

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), tvm_ffi.use_torch_stream(torch.cuda.stream(stream)):
        for _ in range(3):
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            for _ in range(count):
                call()
    replay: Callable[[], Any] = graph.replay
    return replay
