"""What overlapping windows of a tile read, in registers that its results share.

A window of the result ``i, j`` reads functions of ``2 * i + r`` and ``2 * j + s``, where ``r, s``
are its terms. This is proved, so the windows of a row can share registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.loop_steps import Axis
from .....analysis.blocks.tir import Values, is_guard, mentions, seq, values
from .....analysis.lifting.tir.node import items, substitute
from .program.gpu_program import NoGpuSchedule, extents
from .program.merged_axes import simplified, static_range
from .program.thread_loops import load, local, number, store, unrolled
from .program.vector_loads import VectorLanes


@dataclass(frozen=True)
class Slide:
    """An axis of the result, and the term of the window that moves by ``stride`` along it."""

    axis: Axis
    term: Axis
    stride: int

    def same_as(self, other: Slide) -> bool:
        same = self.axis is other.axis and self.term is other.term
        return same and self.stride == other.stride


@dataclass(frozen=True)
class WindowTile:
    """The results of a thread: neighbours whose windows overlap.

    Attributes:
        down, across: How windows move along the rows and the columns of the result.
        rows, columns: How many results the tile has of each.
        reduced: The axes of the reduction.
        i, j, lane: The variables of a result's row, column and channel in the tile.
    """

    down: Slide
    across: Slide
    rows: int
    columns: int
    reduced: Sequence[Axis]
    i: Any
    j: Any
    lane: Any


class WindowReads:
    """What the terms of a row of windows read, in registers.

    Attributes:
        r, s: The variables of the window's terms.
        of_terms: Statements that read what depends on the window's terms only, such as weights.
        of_rows: Statements that read a row that the windows share.
        others: What depends on neither.
    """

    def __init__(
        self, tile: WindowTile, at: Values, width: int, analyzer: Any, buffers: list[Any]
    ) -> None:
        self.tile, self.width, self.analyzer, self.buffers = tile, width, analyzer, buffers
        self.r, self.s, self.y, self.q = (tirx.Var(name, "int64") for name in "rsyq")
        high, self.wide = extents([tile.down.term, tile.across.term])
        tall = (tile.rows - 1) * tile.down.stride + high
        self.long = (tile.columns - 1) * tile.across.stride + self.wide
        for var, extent in (
            (self.r, high),
            (self.s, self.wide),
            (self.y, tall),
            (self.q, self.long),
        ):
            analyzer.bind(var, static_range(extent))
        self.at = Values()
        for var, value in at.items():
            self.at[var] = value
        for axis in tile.reduced:
            self.at[axis.var] = number(0)
        self.at[tile.down.term.var], self.at[tile.across.term.var] = self.r, self.s
        self.registers: list[Any] = []
        self.of_terms: list[Any] = []
        self.of_rows: list[Any] = []
        self.others = self.lanes()

    def lanes(self) -> VectorLanes:
        def own(expr: Any) -> Any | None:
            return expr if any(expr.source.same_as(r) for r in self.registers) else None

        return VectorLanes(self.tile.lane, self.width, self.analyzer, own)

    def placed(self, term: Any) -> Any:
        """The term over registers."""
        atoms: list[Any] = []

        def note(node: Any, visitor: Any) -> None:
            if isinstance(node, tvm.ir.Call) and not is_guard(node):
                visitor.default_visit(node)
            elif not any(tvm_ffi.structural_equal(node, known) for known in atoms):
                atoms.append(node)

        def cast(node: Any, visitor: Any) -> None:
            if isinstance(node.value, tvm.ir.TensorLoad) or is_guard(node.value):
                note(node, visitor)
            else:
                visitor.default_visit(node)

        rules = [(tvm.ir.TensorLoad, note), (tvm.ir.Call, note), (tirx.Cast, cast)]
        tvm_ffi.structural_visit(term, rules)
        registers = [(node, self.atom(node)) for node in atoms]

        def known(node: Any, mutator: Any) -> Any:
            for atom, value in registers:
                if tvm_ffi.structural_equal(node, atom):
                    return value
            return mutator.default_mutate(node)

        replaced = [(kind, known) for kind in (tvm.ir.TensorLoad, tvm.ir.Call, tirx.Cast)]
        return self.others(tvm_ffi.structural_mutate(term, replaced))

    def atom(self, node: Any) -> Any:
        """A load, or a choice, in registers."""
        tile = self.tile
        used = mentions(node)
        if tile.down.axis.var in used or tile.across.axis.var in used:
            return self.of_row(node)
        node = simplified(substitute(node, self.at), self.analyzer)
        used = mentions(node)
        if self.r not in used and self.s not in used:
            return node
        register = self.register(node, self.wide, self.s, self.of_terms)
        return load(register, self.s, tile.lane)

    def of_row(self, node: Any) -> Any:
        """What a window reads, as a function of its row and its column in the tile."""
        tile = self.tile
        down, across = number(tile.down.stride), number(tile.across.stride)
        exact = substitute(node, self.at)
        moved = values((self.r, self.y - down * tile.i), (self.s, self.q - across * tile.j))
        shared = self.normal(substitute(exact, moved))
        used = mentions(shared)
        if tile.i in used or tile.j in used:
            raise NoGpuSchedule("windows do not share what they read")
        row = self.normal(substitute(shared, values((self.y, self.r + down * tile.i))))
        register = self.register(row, self.long, self.q, self.of_rows)
        return load(register, across * tile.j + self.s, tile.lane)

    def normal(self, expr: Any) -> Any:
        """The expression with indices and conditions simplified."""

        def guard(node: Any, mutator: Any) -> Any:
            if not is_guard(node):
                return mutator.default_mutate(node)
            condition, yes, no = items(node.args)
            return tirx.if_then_else(self.analyzer.simplify(condition), mutator.mutate(yes),
                                     mutator.mutate(no))  # fmt: skip

        return tvm_ffi.structural_mutate(simplified(expr, self.analyzer), [(tvm.ir.Call, guard)])

    def register(self, expr: Any, count: int, var: Any, statements: list[Any]) -> Any:
        """Registers of ``count`` vectors, which are the expression at each value of ``var``."""
        register = local(f"window_{len(self.registers)}", [count, self.width], str(expr.ty.dtype))
        self.registers.append(register)
        cast = expr if isinstance(expr, tirx.Cast) else None
        choice = expr.value if cast is not None else expr
        lane = self.tile.lane
        if is_guard(choice) and lane not in mentions(choice.args[0]):
            condition, *branches = items(choice.args)
            filled = [self.filled(register, b, var) for b in branches]
            body = tirx.IfThenElse(at_once(condition), *filled)
        else:
            body = self.filled(register, expr, var)
        statements.append(unrolled("q", count, lambda q: substitute(body, values((var, q)))))
        return register

    def filled(self, register: Any, expr: Any, place: Any) -> Any:
        """The statements that store an expression of each lane."""
        lanes, lane = self.lanes(), self.tile.lane
        element = store(register, lanes(expr), place, lane)
        self.buffers += lanes.registers
        each = unrolled("u", self.width, lambda u: substitute(element, values((lane, u))))
        return seq([*lanes.statements(), each])


def at_once(condition: Any) -> Any:
    """The condition without branches of its own, so that a load under it is predicated."""
    parts = conjuncts(condition)
    if len(parts) == 1:
        return condition
    bits = [tirx.Cast("int32", part) for part in parts]
    return tirx.NE(reduce(tirx.bitwise_and, bits), tirx.const(0, "int32"))


def conjuncts(condition: Any) -> list[Any]:
    """The conditions that all have to hold."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]
