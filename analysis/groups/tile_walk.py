"""A kernel whose blocks walk over tiles of groups of rows, read as what it does with one group.

    Before: tile = block                                    of G blocks
            while group < groups:
                while end <= tile and group < groups:
                    group += 1; begin = end; end += tiles(group); first = last; last += delta(group)
                if group < groups: body(group, first, last, tile - begin)
                tile += G
    After:  for i, j in grid(ceildiv(rows, height), across): body(.., 0, rows, i * across + j)

Group g has ``delta(g) = starts[g + 1] - starts[g]`` rows, the first of which is ``starts[g] -
starts[0]``, and ``tiles(g) = ceildiv(delta(g), height) * across``. If no delta is negative, tiles
are numbered group by group, and the blocks divide the numbers by remainders of G. The numbers of a
block increase, so it finds the group of each. So each tile of each group is executed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ..lifting.tir.node import items
from ..results.op_info import Refusal
from ..support.tvm_compat import SBlockRealize, TensorLoad, source_of, sym
from .one_group import GroupTile, OneGroup
from .straight_line import NotWalk, Place, StraightLine, bare, conjuncts, flat, same

#: What an answer about such a kernel assumes.
ORDERED = "the starts of groups do not decrease, and all groups are in the tensors of rows"


@dataclass(frozen=True)
class Groups:
    """What a kernel does with each group of rows, if `ORDERED` holds.

    Attributes:
        func: The PrimFunc of one group: without the starts, with one matrix of each batch.
        starts: The position of the starts among the parameters.
        count: How many groups there are.
        batches: The positions of tensors that have a matrix for each group.
        rows: The positions of tensors of which a group has some rows.
    """

    func: Any
    starts: int
    count: int
    batches: tuple[int, ...]
    rows: tuple[int, ...]


def groups_of(func: Any) -> Groups | Refusal:
    """Return what a kernel does with one group, or why it does not walk over groups of rows."""
    try:
        return _Walk(func).read()
    except NotWalk as error:
        return Refusal(str(error))


class _Walk:
    """Reads a walk; places of memory are known by what conditions compare."""

    def __init__(self, func: Any) -> None:
        self.func = func
        self.block, self.blocks, first, loop = _kernel(func)
        begin = StraightLine()
        begin.bound = self.block[1]
        begin.run(first)
        self.begin = begin.values
        dtypes = {p: str(v.ty.dtype) for p, v in self.begin.items()}
        if len({*dtypes.values()}) != 1:
            raise NotWalk(f"numbers of {len({*dtypes.values()})} dtypes, expected one")
        (self.dtype,) = {*dtypes.values()}
        self.now: dict[Place, Any] = {p: tirx.Var("now", self.dtype) for p in self.begin}
        self.loop = loop

    def read(self) -> Groups:
        """Return what the kernel does with one group."""
        parts = flat(self.loop.body)
        kinds = [type(p).__name__ for p in parts]
        if kinds != ["While", "IfThenElse", "BufferStore"]:
            raise NotWalk(f"a loop over {kinds}, expected a search, a tile, and a next number")
        search, tile, following = parts
        state = StraightLine(self.now)
        self.group, self.count = self._below(state.of(bare(self.loop.condition)))
        self._search(search)
        after = StraightLine(self.now)
        after.run([following])
        if not same(after.values[self.tile], self.now[self.tile] + self.blocks):
            raise NotWalk("the next tile is not as many further as there are blocks")
        if any(after.values[p] is not v for p, v in self.now.items() if p != self.tile):
            raise NotWalk("something besides the number of the tile changes after a tile")
        if not same(self.begin[self.tile], self.block[0]) or not same(self.begin[self.group], 0):
            raise NotWalk("the walk does not begin with the block's number and the first group")
        self._tiles()
        return self._one(tile, state)

    def _below(self, condition: Any) -> tuple[Place, int]:
        """The place in ``now < number``."""
        if isinstance(condition, tirx.LT) and isinstance(condition.b, tirx.IntImm):
            found = [p for p, v in self.now.items() if condition.a.same_as(v)]
            if found:
                return found[0], int(condition.b)
        raise NotWalk(f"a condition {condition}, expected that a group is in range")

    def _search(self, search: Any) -> None:
        """Read the loop that finds the group of a tile."""
        state = StraightLine(self.now)
        conditions = conjuncts(state.of(search.condition))
        inside = [c for c in conditions if isinstance(c, tirx.LT)]
        passed = [c for c in conditions if isinstance(c, tirx.LE)]
        if len(conditions) != 2 or not inside or not passed:
            raise NotWalk("a search that does not end in the group of the tile")
        places = [[p for p, v in self.now.items() if side.same_as(v)]
                  for side in (passed[0].a, passed[0].b)]  # fmt: skip
        if self._below(inside[0]) != (self.group, self.count) or not all(places):
            raise NotWalk("a search that does not end in the group of the tile")
        self.end, self.tile = places[0][0], places[1][0]
        step, *rest = flat(search.body)
        state.run([step])
        if not same(state.values[self.group], self.now[self.group] + 1) or len(rest) != 1:
            raise NotWalk("a search that does not go to the next group")
        (branch,) = rest
        if not isinstance(branch, tirx.IfThenElse) or branch.else_case is not None:
            raise NotWalk("a search without a condition for what is known of a group")
        condition = state.of(bare(branch.condition))
        following = self.now[self.group] + 1
        if not isinstance(condition, tirx.LT) or not (
            same(condition.a, following) and same(condition.b, self.count)):  # fmt: skip
            raise NotWalk("a search that reads behind the last group")
        state.run(flat(branch.then_case))
        self.then = state.values

    def _tiles(self) -> None:
        """Read how many tiles and rows a group has, and what else is known of it."""
        tile, group = self.now[self.tile], self.now[self.group]
        if not same(self.then[self.tile], tile) or not same(self.then[self.group], group + 1):
            raise NotWalk("a search that changes the number of the tile")
        self.delta = tirx.Var("delta", self.dtype)
        more = {p: self._of_group(self.then[p] - self.now[p], group + 1)
                for p in self.now if p not in (self.tile, self.group)}  # fmt: skip
        last = next((p for p, v in more.items() if v is not None and same(v, self.delta)
                          and p != self.end), None)  # fmt: skip
        count = more.get(self.end)
        if last is None or count is None:
            raise NotWalk("a group's tiles and rows are not counted by differences of its starts")
        self.last: Place = last
        self.across, self.height = _tiling(count, self.delta)
        for p, more_of in ((self.end, count), (self.last, self.delta)):
            first = self._of_group(self.begin[p], tirx.const(0, self.dtype))
            if first is None or not same(first, more_of):
                raise NotWalk("the first group is counted differently from the others")
        self.before = {}
        for total in (self.end, self.last):
            self.before[total] = [p for p in self.now if self.then[p].same_as(self.now[total])]
            if not all(same(self.begin[p], 0) for p in self.before[total]):
                raise NotWalk("the first group does not begin at 0")

    def _of_group(self, value: Any, group: Any) -> Any | None:
        """A value over how many rows a group has; None if it depends on something else."""
        low = tirx.Var("low", self.dtype)
        wrong: list[bool] = []

        def load(node: Any) -> Any:
            indices, buffer = items(node.indices), source_of(node)
            known = getattr(self, "starts", None)
            if len(indices) != 1 or not (known is None or buffer.same_as(known)):
                wrong.append(True)
                return node
            self.starts = buffer
            for distance, start in ((0, low), (1, low + self.delta)):
                if same(indices[0], group + distance):
                    return start
            wrong.append(True)
            return node

        out = sym.Analyzer().simplify(tvm_ffi.structural_map(value, (TensorLoad, load)))
        names: list[Any] = []
        tvm_ffi.structural_walk(out, (ir.Var, names.append))
        return None if wrong or not all(v.same_as(self.delta) for v in names) else out

    def _one(self, tile: Any, state: StraightLine) -> Groups:
        """The PrimFunc of one group."""
        if tile.else_case is not None or self._below(state.of(bare(tile.condition))) != (
            self.group, self.count):  # fmt: skip
            raise NotWalk("a tile without the condition that its group is in range")
        params = items(self.func.params)
        starts = next((k for k, p in enumerate(params) if p.same_as(self.starts)), None)
        if starts is None:
            raise NotWalk("the starts of groups are not a parameter")
        row, column = (tirx.Var(n, self.dtype) for n in ("row", "column"))
        values = dict(self.now)
        first = tirx.Var("first", self.dtype)
        begin = tirx.Var("begin", self.dtype)
        values |= {p: first for p in self.before[self.last]}
        values |= {p: begin for p in self.before[self.end]}
        values[self.tile] = begin + row * self.across + column
        analyzer = sym.Analyzer()
        analyzer.bind(column, ir.Range(0, self.across))
        inside = StraightLine(values, analyzer)
        *numbers, body = flat(tile.then_case)
        inside.run(numbers)
        of = GroupTile(row, column, self.across, self.height, self.now[self.group], first,
                  self.now[self.last])  # fmt: skip
        own = [v for p, v in values.items() if p not in (self.tile, self.last, self.group)]
        one = OneGroup(self.func, of, starts, self.count, [*own, begin, first], self.begin)
        func = one.func_of(inside.of(body))
        return Groups(func, starts, self.count, tuple(one.batches), tuple(one.rows))


def _kernel(func: Any) -> tuple[tuple[Any, Any], int, list[Any], Any]:
    """The number of a block and what is bound to it, how many there are, and the two parts."""
    stmt, number, blocks, state = func.body, None, 0, StraightLine()
    while isinstance(stmt, (SBlockRealize, tirx.For)):
        if isinstance(stmt, tirx.For):
            binding = stmt.thread_binding
            tag = "" if binding is None else str(binding.thread_tag)
            plain = isinstance(stmt.extent, tirx.IntImm) and same(stmt.min, 0)
            if number is not None or not tag.startswith("blockIdx") or not plain:
                raise NotWalk("loops besides one over a number of blocks")
            number, blocks = stmt.loop_var, int(stmt.extent)
            stmt = stmt.body
            continue
        block = stmt.block
        if block.init is not None or items(block.match_buffers) or not same(stmt.predicate, 1):
            raise NotWalk("a block with a condition, an initial value, or a part of a buffer")
        for var, value in zip(items(block.iter_vars), items(stmt.iter_values), strict=True):
            state.bound[var.var] = state.of(value)
        stmt = block.body
    *first, loop = flat(stmt) or [stmt]
    if number is None or not isinstance(loop, tirx.While):
        raise NotWalk("the kernel is not a loop of blocks over tiles")
    return (number, state.bound), blocks, first, loop


def _tiling(count: Any, delta: Any) -> tuple[int, int]:
    """How many tiles are side by side, and how many rows a tile has."""
    analyzer, heights = sym.Analyzer(), {1}
    one = analyzer.simplify(tvm_ffi.structural_map(
        count, (ir.Var, lambda v: tirx.const(1, str(v.ty.dtype)))))  # fmt: skip

    def divisor(node: Any) -> None:
        if isinstance(node.b, tirx.IntImm):
            heights.add(int(node.b))

    tvm_ffi.structural_walk(count, (tirx.FloorDiv, divisor))
    if isinstance(one, tirx.IntImm) and int(one) > 0:
        for height in sorted(heights):
            if height > 0 and same(count, tirx.floordiv(delta + (height - 1), height) * int(one)):
                return int(one), height
    raise NotWalk(f"a group has {count} tiles, expected its rows by a number, rounded up")
