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

    def all_vectors(add: Callable[[Any, Any], Any]) -> Any:
        def step(t: Any) -> Any:
            at = thread if steps == 1 else t * number(threads) + thread
            whole = vector.vectors % threads == 0
            return when(None if whole else at < number(vector.vectors), add(column, at))

        return serial("t", steps, step)

    first = [vector.clear(), all_vectors(vector.add)]
    if isinstance(vector, HalfVector):
        return seq([*first, done])
    totals = [load(vector.acc, number(r), number(m))
              for r in range(vector.columns) for m in range(vector.what.rows)]  # fmt: skip
    # No condition is negated: !(a <= b) would become b < a, which a NaN does not satisfy.
    finite = functools.reduce(tirx.And, (tirx.abs(total) <= LARGEST for total in totals))
    again = seq([vector.clear(), all_vectors(vector.without_ones), done])
    return seq([*first, tirx.IfThenElse(finite, done, again)])
