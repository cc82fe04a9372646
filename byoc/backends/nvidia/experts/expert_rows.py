"""The rows of an expert, in order, in shared memory.

count[t] = the number of rows of the expert among those of thread t, which are neighbours
chosen[sum of count[0 .. t) ...] = those rows;  total = sum of count
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq, static
from .....analysis.lifting.tir.node import as_dtype, items
from ..grouped_weights.grouped_product import Experts
from ..grouped_weights.product_results import digits
from ..schedules.program.thread_loops import barrier, load, local, number, serial, store, when


class ExpertRows:
    """The statements that find the rows of an expert.

    Args:
        experts: The experts of rows.
        name: The stem of the names of buffers.
        threads: The threads of a block.

    Attributes:
        total: The number of rows of the expert.
        buffers: All buffers.
    """

    def __init__(self, experts: Experts, name: str, threads: int) -> None:
        self.experts, self.threads = experts, threads
        self.each = -(-experts.rows // threads)
        self.count = local(f"{name}_count", [threads], "int32", "shared")
        self.chosen = local(f"{name}_chosen", [experts.rows], "int32", "shared")
        self.place = local(f"{name}_place", [1], "int64")
        self.total = local(f"{name}_total", [1], "int64")
        self.buffers = [self.count, self.chosen, self.place, self.total]

    def find(self, expert: Any, thread: Any) -> list[Any]:
        """The statements of one thread."""
        zero, one = number(0), number(1)
        place = load(self.place, zero)

        def mine(body: Any) -> Any:
            return serial("c", self.each, lambda c: self._if_chosen(expert, thread, c, body))

        def add(j: Any) -> Any:
            count = as_dtype(load(self.count, j), "int64")
            before = when(j < thread, store(self.place, place + count, zero))
            return seq([before, store(self.total, load(self.total, zero) + count, zero)])

        step = store(self.place, place + one, zero)
        return [
            store(self.place, zero, zero), store(self.total, zero, zero),
            mine(lambda row: step), store(self.count, place, thread), barrier(),
            store(self.place, zero, zero), serial("j", self.threads, add), barrier(),
            mine(lambda row: seq([store(self.chosen, row, place), step])), barrier(),
        ]  # fmt: skip

    def _if_chosen(self, expert: Any, t: Any, c: Any, body: Any) -> Any:
        """``body`` of row ``c`` of a thread, if it is one of the expert."""
        row = t * number(self.each) + c
        ids = self.experts.ids
        shape = [static(e) or 0 for e in items(ids.ty.shape)]
        same = tirx.EQ(as_dtype(load(ids, *digits(row, shape)), "int64"), expert)
        whole = self.each * self.threads == self.experts.rows
        return when(None if whole else row < number(self.experts.rows), when(same, body(row)))

    def row(self, place: Any) -> Any:
        """The row at a place, which `has` one."""
        return as_dtype(load(self.chosen, place), "int64")

    def has(self, place: Any) -> Any:
        """Whether the expert has so many rows."""
        return place < load(self.total, number(0))
