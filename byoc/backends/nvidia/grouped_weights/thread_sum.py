"""The sums of a thread over vectors of packed weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq
from ..schedules.program.thread_loops import load, number, serial, when
from .half_vector import HalfVector
from .packed_vector import PackedVector

#: The least number of steps of which one reads what the next one multiplies. The compiler for a GPU
#: moves loads to where their values are used, but not to another step of a loop.
AHEAD = 2
#: The largest finite float32.
LARGEST = tirx.FloatImm("float32", 3.4028234663852886e38)


def summed(vector: PackedVector, column: Any, thread: Any, threads: int, done: Any) -> Any:
    """Return the statements that sum vectors of columns, again if a sum is not finite.

    Args:
        vector: The registers of the thread.
        column: Its first column.
        thread: Its number among those of the column.
        threads: How many threads share a column.
        done: The statements after the sums.
    """
    steps = -(-vector.vectors // threads)
    whole = vector.vectors % threads == 0

    def place(t: Any) -> Any:
        return thread if steps == 1 else t * number(threads) + thread

    def inside(at: Any) -> Any:
        return None if whole else at < number(vector.vectors)

    def all_vectors(add: Callable[[Any, Any], Any]) -> Any:
        return serial("t", steps, lambda t: when(inside(place(t)), add(column, place(t))))

    def step(t: Any) -> Any:
        following = place(t + number(1))
        more = t < number(steps - 1) if whole else following < number(vector.vectors)
        read = when(more, vector.read(column, following, ahead=True))
        return when(inside(place(t)), seq([vector.take(), read, vector.multiply(place(t))]))

    if isinstance(vector, HalfVector):
        return seq([vector.clear(), all_vectors(vector.add), done])
    if steps < AHEAD:
        first = [all_vectors(vector.add)]
    else:
        first = [vector.read(column, thread, ahead=True), serial("t", steps, step)]
    totals = [load(vector.acc, number(r), number(m))
              for r in range(vector.columns) for m in range(vector.what.rows)]  # fmt: skip
    # No condition is negated: !(a <= b) would become b < a, which a NaN does not satisfy.
    finite = functools.reduce(tirx.And, (tirx.abs(total) <= LARGEST for total in totals))
    again = seq([vector.clear(), all_vectors(vector.without_ones), done])
    return seq([vector.clear(), *first, tirx.IfThenElse(finite, done, again)])
