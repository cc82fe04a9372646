"""Loop nests of kernels, with vectors along one axis and rows of another in registers.

    for i, j, k: out[i, j] += x[i, k] * w[k, j]

    for jt, it:                            tiles
      acc_0, acc_1: 16 elements each       rows it * 2 and it * 2 + 1
      for k:
        for l in vectorized(16): acc_0[l] += x[it * 2, k] * w[k, jt * 16 + l]
        for l in vectorized(16): acc_1[l] += x[it * 2 + 1, k] * w[k, jt * 16 + l]
      for l in vectorized(16): out[it * 2, jt * 16 + l] = acc_0[l]; …

Nothing is predicated. Where a tile does not divide a symbolic axis, the last rows or vectors are
moved back so that they end with it: some elements are computed twice, to the same value. Kernels
whose elements may not be have single rows and elements at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from .kernel import Kernel
from .machine import Machine
from .program import Axis
from .tile import Tile, columns, pieces
from .tir import Values, as_dtype, integer, local, loop, seq, substitute, values, vectorizable

Rows = list[Any]  # the value of the row axis in each
Columns = list[tuple[Any, int]]  # where a vector starts, and its lanes
Body = Callable[[Values], Any]


@dataclass
class Nest:
    """A kernel whose rows are of the axis ``i``, if there is one, and vectors of the axis ``j``.

    ``order`` has all axes, from the outermost loop.
    """

    kernel: Kernel
    machine: Machine
    tile: Tile
    order: Sequence[Axis]
    i: Axis | None
    j: Axis | None
    parallel: bool = True
    at: Values = field(default_factory=Values)

    def __call__(self) -> Any:
        body = self._level(0, [], [])
        return body

    def _level(self, k: int, rows: Rows, cols: Columns) -> Any:
        if k == len(self.order):
            return self.micro(rows, cols)
        axis = self.order[k]
        if axis is self.i:
            return self._rows(axis, lambda r: self._level(k + 1, r, cols), self._kind(k))
        if axis is self.j:
            return self._columns(axis, lambda c: self._level(k + 1, rows, c), self._kind(k))

        def body(v: Any) -> Any:
            self.at[axis.var] = v
            return self._level(k + 1, rows, cols)

        return loop(axis.var.name, axis.extent, axis.var, body, self._kind(k))

    def _kind(self, k: int) -> Any:
        wide = self.parallel and self.machine.cores > 1 and k == 0
        return tirx.ForKind.PARALLEL if wide else tirx.ForKind.SERIAL

    # ------------------------------------------------------------------------ tiles

    def _rows(self, axis: Axis, body: Callable[[Rows], Any], kind: Any) -> Any:
        most = self.tile.rows
        if axis.static is None and not self.kernel.twice:
            return seq([loop("it", n, axis.var, _rows_from(b, s, axis, body), kind)
                        for b, s, n in _apart(axis, (most, 1))])  # fmt: skip
        if axis.static is None:
            end = as_dtype(axis.extent, str(axis.var.ty.dtype))
            one, size = integer(1, axis.var), integer(most, axis.var)

            def symbolic(v: Any) -> Any:
                bound = [(tirx.Var("row", str(v.ty.dtype)), v * size + integer(r, v))
                         for r in range(most)]  # fmt: skip
                lets = [tirx.stmt.Bind(x, tirx.Min(e, end - one) if most > 1 else e)
                        for x, e in bound]  # fmt: skip
                return seq([*lets, body([x for x, _ in bound])])

            count = tirx.FloorDiv(end + integer(most - 1, axis.var), size)
            return loop("it", count, axis.var, symbolic, kind)
        return seq([
            loop("it", n, axis.var, _rows_from(integer(start, axis.var), size, axis, body), kind)
            for start, n, size in pieces(axis.static, most)
        ])  # fmt: skip

    def _columns(self, axis: Axis, body: Callable[[Columns], Any], kind: Any) -> Any:
        lanes, wide = self.tile.lanes, self.tile.vectors
        if axis.static is None:
            return self._symbolic(axis, body, kind)
        found = columns(axis.static, lanes, self.kernel.twice)
        lanes = found[0][1]
        whole = axis.static // (lanes * wide)
        out = []
        if whole:

            def full(v: Any) -> Any:
                first = v * integer(lanes * wide, axis.var)
                return body([(first + integer(c * lanes, axis.var), lanes) for c in range(wide)])

            out.append(loop("jt", whole, axis.var, full, kind))
        rest = found[whole * wide :]
        if rest:
            out.append(body([(integer(s, axis.var), n) for s, n in rest]))
        return seq(out)

    def _symbolic(self, axis: Axis, body: Callable[[Columns], Any], kind: Any) -> Any:
        """Vectors that end with the axis, single elements where it has fewer than a tile."""
        lanes, wide = self.tile.lanes, self.tile.vectors
        if not self.kernel.twice:
            return self._disjoint(axis, body, kind)
        end = as_dtype(axis.extent, str(axis.var.ty.dtype))

        def over(lanes: int, wide: int) -> Any:
            size = integer(lanes * wide, axis.var)

            def tiles(v: Any) -> Any:
                x = tirx.Var("col", str(v.ty.dtype))
                first = tirx.stmt.Bind(x, tirx.Min(v * size, end - size))
                cols = [(x + integer(c * lanes, axis.var), lanes) for c in range(wide)]
                return seq([first, body(cols)])

            count = tirx.FloorDiv(end + size - integer(1, axis.var), size)
            return loop("jt", count, axis.var, tiles, kind)

        single = loop("jt", end, axis.var, lambda v: body([(v, 1)]), kind)
        if lanes * wide == 1:
            return single
        small = single
        if wide > 1:
            small = tirx.IfThenElse(end >= integer(lanes, axis.var), over(lanes, 1), single)
        return tirx.IfThenElse(end >= integer(lanes * wide, axis.var), over(lanes, wide), small)

    def _disjoint(self, axis: Axis, body: Callable[[Columns], Any], kind: Any) -> Any:
        """Tiles, then vectors, then elements: none twice."""
        lanes, wide = self.tile.lanes, self.tile.vectors
        out = []
        for base, size, count in _apart(axis, (lanes * wide, lanes, 1)):
            width = min(size, lanes)

            def tiles(v: Any, base: Any = base, size: int = size, width: int = width) -> Any:
                first = v * integer(size, v) + base
                return body([(first + integer(c, v), width) for c in range(0, size, width)])

            out.append(loop("jt", count, axis.var, tiles, kind))
        return seq(out)

    # ------------------------------------------------------------------------ registers

    def micro(self, rows: Rows, cols: Columns) -> Any:
        """One tile: start the accumulators, reduce, store."""
        kernel = self.kernel
        spots = [(r, c) for r in range(len(rows) or 1) for c in range(len(cols) or 1)]
        like = self.j.var if self.j is not None else integer(0, tirx.Var("x", "int64"))
        place = {s: self._place(s, rows, cols) for s in spots}
        held = {s: [local("acc", [place[s][1]], a.dtype) for a in kernel.accumulators]
                for s in spots}  # fmt: skip
        base = self._based()
        parts: list[Any] = [tirx.AllocBuffer(b) for s in spots for b in held[s]]

        def each(
            body: Callable[[Values, tuple[int, int], Any], list[Any]], wide: bool = True
        ) -> list[Any]:
            def one(s: tuple[int, int]) -> Any:
                at, lanes = place[s]
                kind = tirx.ForKind.VECTORIZED if wide else tirx.ForKind.UNROLLED
                return loop("l", lanes, like, lambda x: seq(body(at(x), s, x)), kind)

            return [one(s) for s in spots]

        first, last = self._vectorizable()

        if kernel.accumulators:
            parts += each(lambda at, s, x: self._start(base, held[s], at, x))
            parts.append(self._reduce(base, lambda k: each(
                lambda at, s, x: self._update(k, held[s], at, x), first)))  # fmt: skip
        parts += each(lambda at, s, x: self._store(base, held[s], at, x), last)
        return seq(parts)

    def _vectorizable(self) -> tuple[bool, bool]:
        """Whether updates are, and whether stores are."""
        k, axis = self.kernel, None if self.j is None else self.j.var
        first = [a.update for a in k.accumulators] + [e for _, e in k.before]
        last = [r.value for r in k.results] + [e for _, e in k.after]
        return all(vectorizable(e, axis) for e in first), all(vectorizable(e, axis) for e in last)

    def _place(
        self, s: tuple[int, int], rows: Rows, cols: Columns
    ) -> tuple[Callable[[Any], Values], int]:
        """The axes of a vector's elements by lane, and how many there are."""
        row = rows[s[0]] if rows else None
        col, lanes = cols[s[1]] if cols else (None, 1)

        def at(lane: Any) -> Values:
            found = Values()
            if self.i is not None:
                found[self.i.var] = row
            if self.j is not None:
                found[self.j.var] = col + lane if lanes > 1 else col
            return found

        return at, lanes

    def _based(self) -> Kernel:
        """The kernel inside the loops around."""
        return self.kernel.at(self.at, self.kernel.axes, self.kernel.reduced)

    def _start(self, kernel: Kernel, held: list[Any], at: Values, lane: Any) -> list[Any]:
        return [tirx.BufferStore(b, substitute(a.init, at), [lane])
                for a, b in zip(kernel.accumulators, held, strict=True)]  # fmt: skip

    def _reduce(self, kernel: Kernel, body: Callable[[Kernel], list[Any]]) -> Any:
        def nest(left: tuple[Axis, ...], at: Values) -> Any:
            if not left:
                return seq(body(kernel.at(at, kernel.axes, ())))
            first = left[0]

            def inner(v: Any) -> Any:
                at[first.var] = v
                return nest(left[1:], at)

            return loop(first.var.name, first.extent, first.var, inner)

        return nest(kernel.reduced, Values())

    def _update(self, kernel: Kernel, held: list[Any], at: Values, lane: Any) -> list[Any]:
        lets, at = _bound(kernel.before, _held(kernel, held, at, lane))
        return lets + [tirx.BufferStore(b, substitute(a.update, at), [lane])
                       for a, b in zip(kernel.accumulators, held, strict=True)]  # fmt: skip

    def _store(self, kernel: Kernel, held: list[Any], at: Values, lane: Any) -> list[Any]:
        lets, at = _bound(kernel.after, _held(kernel, held, at, lane))
        return lets + [
            tirx.BufferStore(r.buffer, substitute(r.value, at),
                             [substitute(e, at) for e in r.indices])
            for r in kernel.results
        ]  # fmt: skip


def _rows_from(
    base: Any, size: int, axis: Axis, body: Callable[[Rows], Any]
) -> Callable[[Any], Any]:
    """The body of a loop over tiles of rows that start at ``base``."""

    def tiles(v: Any) -> Any:
        first = v * integer(size, axis.var) + base
        return body([first + integer(r, axis.var) for r in range(size)])

    return tiles


def _apart(axis: Axis, sizes: Sequence[int]) -> list[tuple[Any, int, Any]]:
    """A symbolic axis as tiles of falling sizes: from where, the size, how many."""
    end = as_dtype(axis.extent, str(axis.var.ty.dtype))
    base: Any = integer(0, axis.var)
    out = []
    for size in dict.fromkeys(sizes):
        count = tirx.FloorDiv(end - base, integer(size, axis.var))
        out.append((base, size, count))
        base = base + count * integer(size, axis.var)
    return out


def _held(kernel: Kernel, held: list[Any], at: Values, lane: Any) -> Values:
    """The accumulators' variables are worth what is in registers."""
    pairs = ((a.var, tirx.BufferLoad(b, [lane]))
             for a, b in zip(kernel.accumulators, held, strict=True))  # fmt: skip
    return values(*at.items(), *pairs)


def _bound(lets: Sequence[tuple[Any, Any]], at: Values) -> tuple[list[Any], Values]:
    """The bindings at a place, under variables of their own."""
    made, at = [], values(*at.items())
    for v, e in lets:
        own = tirx.Var(v.name, str(v.ty.dtype))
        made.append(tirx.stmt.Bind(own, substitute(e, at)))
        at[v] = own
    return made, at
