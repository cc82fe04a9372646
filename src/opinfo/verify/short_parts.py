"""Time a call by the least of short parts, which other processes interrupt least.

On a busy machine, a thread is stopped every few milliseconds. Of two threads, either may be, and
the other one waits for it. A part is shorter than that, so that some parts are whole.
"""

from __future__ import annotations

from collections.abc import Callable

Call = Callable[[], object]
Clock = Callable[[], float]
#: Seconds of all parts, and the least of one of them.
TOTAL, PART = 1e-2, 5e-4
#: The least seconds of a call: what a clock may tell of a shorter one is its resolution.
SHORT = 1e-6


def seconds_of(call: Call, clock: Clock) -> float:
    """Return the seconds of a call by a clock.

    A call of at least `TOTAL` is made once. A shorter one is made again, in parts of at least
    `PART` that last about `TOTAL` together; the mean of the part with the least is returned.
    """
    first = max(_mean(call, clock, 1), SHORT)
    if first > TOTAL:
        return first
    count = max(1, int(PART / first))
    parts = max(1, int(TOTAL / (first * count)))
    return min(_mean(call, clock, count) for _ in range(parts))


def _mean(call: Call, clock: Clock, count: int) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count
