"""Time calls in turns: as often as their times need to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from time import process_time, sleep

from .short_parts import Call, Clock, seconds_of

#: Number of timed runs; after so many seconds of the clock, the least number.
RUNS, SECONDS, FEWEST = 9, 1.0, 3
#: What takes so many times as long as the fastest is not called again: it cannot win. The second
#: number is for two or more CPU times, of which the least differ by less.
SLOW, CLOSE = 1.5, 1.1
#: Seconds before each run: threads of the library that ran before spin on the cores for a while.
#: ONNX Runtime's do so a million times, which takes 40 ms on one CPU, and more on another.
PAUSE, MOST_PAUSES = 0.05, 6


def timed_turns(
    calls: Sequence[Call | None], clock: Clock, whole: bool = True
) -> list[list[float]]:  # fmt: skip
    """Return the milliseconds of each call by a clock, in turns.

    One run says which calls are slow if the clock is that of CPU time. Others need the fewest runs,
    as other processes lengthen some. Seconds of CPU time also limit how many there are: on a busy
    machine, those of the wall are over after the fewest. If only one of several calls can still
    win, its further runs decide nothing, if these times are the ``whole`` of what is compared.
    """
    times: list[list[float]] = [[] for _ in calls]
    several = whole and sum(call is not None for call in calls) > 1
    end = clock() + SECONDS
    alone = clock is process_time
    for run in range(RUNS):
        slow = inf if run < (1 if alone else FEWEST) else CLOSE if alone and run > 1 else SLOW
        limit = slow * min((min(measured) for measured in times if measured), default=inf)
        left = [(call, measured) for call, measured in zip(calls, times, strict=True)
                if call is not None and min(measured, default=0.0) <= limit]  # fmt: skip
        if run >= FEWEST and several and len(left) < 2:
            break
        for call, measured in left:
            _settle()
            measured.append(1e3 * seconds_of(call, clock))
        if run + 1 >= FEWEST and clock() > end:
            break
    return times


def _settle() -> None:
    """Sleep until all threads of this process do."""
    for _ in range(MOST_PAUSES):
        used = process_time()
        sleep(PAUSE)
        if process_time() - used < PAUSE / 10:
            return
