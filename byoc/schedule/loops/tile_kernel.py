"""Emit the innermost part of a loop nest: a tile of results in registers.

acc_0, acc_1: 16 elements each
for k:
  for l in vectorized(16): acc_0[l] += x[it * 2, k] * w[k, jt * 16 + l]
  for l in vectorized(16): acc_1[l] += x[it * 2 + 1, k] * w[k, jt * 16 + l]
for l in vectorized(16): out[it * 2, jt * 16 + l] = acc_0[l]; …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import Values, calls, integer, local, loop, seq, values
from ....analysis.lifting.tir.node import as_dtype, substitute
from ..nest.kernel import Kernel
from ..nest.vector_functions import FunctionExpander, vectorizable
from .runs import AxisRun, Columns, Rows, split_runs

#: What is done to an element, given the values of the axes there and the registers: statements.
ElementBody = Callable[[Values, Sequence[Any]], list[Any]]


class TileKernel:
    """Emits the code of one tile; `LoopNest` emits the loops around it."""

    kernel: Kernel
    row_axis: Axis | None
    vector_axis: Axis | None
    unrolled: bool
    at: Values

    def micro(self, rows: Rows, cols: Columns) -> Any:
        """Emit one tile: initialise the accumulators, reduce, store."""
        kernel, base = self.kernel, self._based()
        runs = split_runs(cols or [AxisRun(lambda c: None)], rows)
        registers = self._arrays("acc", rows, runs)
        updates_vectorize, stores_vectorize = self._vectorizable()

        def each(arrays: Any, body: ElementBody, vectorized: bool = True,
                 outer: Any = tirx.ForKind.UNROLLED) -> Any:  # fmt: skip
            return self._each(rows, runs, arrays, body, vectorized, outer)

        parts: list[Any] = [tirx.AllocBuffer(b) for buffers in registers for b in buffers]
        if kernel.accumulators:
            parts.append(each(registers, lambda at, elements: self.start(base, elements, at)))
            parts.append(self.reduce(base, lambda kernel: each(
                registers, lambda at, elements: self.update(kernel, elements, at),
                updates_vectorize)))  # fmt: skip
        stored, order = registers, tirx.ForKind.UNROLLED
        if kernel.accumulators and self._calls_functions():
            stored, order = self._arrays("tile", rows, runs), tirx.ForKind.SERIAL
            parts[:0] = [tirx.AllocBuffer(b) for buffers in stored for b in buffers]
            pairs = [[*zip(arrays, buffers, strict=True)]
                     for arrays, buffers in zip(stored, registers, strict=True)]  # fmt: skip
            parts.append(each(pairs, _copied))
        parts.append(each(stored, lambda at, elements: self.store(base, elements, at),
                          stores_vectorize, order))  # fmt: skip
        return seq(parts)

    def _arrays(self, name: str, rows: Rows, runs: Sequence[AxisRun]) -> list[list[Any]]:
        """Return for each run an array of the tile's elements for each accumulator."""
        count = rows.count if rows else 1
        return [[local(name, [count * run.count * run.lanes], a.dtype)
                 for a in self.kernel.accumulators] for run in runs]  # fmt: skip

    def _each(self, rows: Rows, runs: Sequence[AxisRun], arrays: Sequence[list[Any]],
              body: ElementBody, vectorized: bool, outer: Any) -> Any:  # fmt: skip
        """Emit loops over the rows, vectors and lanes of a tile around what is done to an element.

        ``arrays`` are those of each run; the body gets them with the element's place.
        """
        like = integer(0, tirx.Var("x", "int64"))
        if self.vector_axis is not None:
            like = self.vector_axis.var
        last = tirx.ForKind.VECTORIZED if vectorized else tirx.ForKind.UNROLLED

        def emit(run: AxisRun, buffers: list[Any], row: Any) -> Any:
            def element(vector: Any, lane: Any) -> Any:
                at = self.place(rows, run, row, vector, lane)
                start = (row * integer(run.count, row) + vector) * integer(run.lanes, row)
                return seq(body(at, [(b, start + lane) for b in buffers]))

            return loop("c", run.count, like, lambda vector: loop(
                "l", run.lanes, like, lambda lane: element(vector, lane), last), outer)  # fmt: skip

        pairs = list(zip(runs, arrays, strict=True))
        count = rows.count if rows else 1
        return loop("r", count, like, lambda row: seq(
            [emit(run, buffers, row) for run, buffers in pairs]), outer)  # fmt: skip

    def _calls_functions(self) -> bool:
        """Return whether results call functions, which are emitted once for a tile, not unrolled.

        The loop over the tile needs an array in memory, while the accumulators are in registers.
        """
        kernel = self.kernel
        exprs = [r.value for r in kernel.results] + [e for _, e in kernel.after]
        return any(map(calls, exprs))

    def place(self, rows: Rows, run: AxisRun, row: Any, vector: Any, lane: Any) -> Values:
        """Return the axis values of an element, given its row, vector and lane."""
        at = Values()
        if self.row_axis is not None and rows is not None:
            at[self.row_axis.var] = rows.at(as_dtype(row, str(self.row_axis.var.ty.dtype)))
        if self.vector_axis is not None:
            at[self.vector_axis.var] = run.at(vector) + lane if run.lanes > 1 else run.at(vector)
        return at

    def _vectorizable(self) -> tuple[bool, bool]:
        """Return whether updates and whether stores can be vectorised."""
        kernel, axis = self.kernel, None if self.vector_axis is None else self.vector_axis.var
        first = [a.update for a in kernel.accumulators] + [e for _, e in kernel.before]
        last = [r.value for r in kernel.results] + [e for _, e in kernel.after]
        return all(vectorizable(e, axis) for e in first), all(vectorizable(e, axis) for e in last)

    def _based(self) -> Kernel:
        """Return the kernel with the variables of the enclosing loops."""
        return self.kernel.at(self.at, self.kernel.axes, self.kernel.reduced)

    def start(self, kernel: Kernel, elements: Sequence[Any], at: Values) -> list[Any]:
        """Return the statements that initialise the accumulators of an element."""
        return [tirx.BufferStore(b, substitute(a.init, at), [place])
                for a, (b, place) in zip(kernel.accumulators, elements, strict=True)]  # fmt: skip

    def reduce(self, kernel: Kernel, body: Callable[[Kernel], Any]) -> Any:
        """Emit the loops of the reduction around a body."""

        def nest(axes: tuple[Axis, ...], at: Values) -> Any:
            if not axes:
                return body(kernel.at(at, kernel.axes, ()))
            first = axes[0]

            def inner(var: Any) -> Any:
                at[first.var] = var
                return nest(axes[1:], at)

            kind = tirx.ForKind.UNROLLED if self.unrolled else tirx.ForKind.SERIAL
            return loop(first.var.name, first.extent, first.var, inner, kind)

        return nest(kernel.reduced, Values())

    def update(self, kernel: Kernel, elements: Sequence[Any], at: Values) -> list[Any]:
        """Return the statements that update the accumulators of an element."""
        lets, at = _fresh_bindings(kernel.before, _with_accumulators(kernel, elements, at))
        for accumulator, (buffer, place) in zip(kernel.accumulators, elements, strict=True):
            lets += _stored(buffer, accumulator.update, [place], at)
        return lets

    def store(self, kernel: Kernel, elements: Sequence[Any], at: Values) -> list[Any]:
        """Return the statements that store the results of an element."""
        lets, at = _fresh_bindings(kernel.after, _with_accumulators(kernel, elements, at))
        for output in kernel.results:
            lets += _stored(
                output.buffer, output.value, [substitute(e, at) for e in output.indices], at
            )
        return lets


def _copied(at: Values, elements: Sequence[Any]) -> list[Any]:
    """Copy elements from registers to arrays in memory."""
    return [tirx.BufferStore(array, tirx.BufferLoad(register, [place]), [place])
            for (array, register), place in elements]  # fmt: skip


def _with_accumulators(kernel: Kernel, elements: Sequence[Any], at: Values) -> Values:
    """Map the variables of the accumulators to their registers."""
    pairs = ((a.var, tirx.BufferLoad(b, [place]))
             for a, (b, place) in zip(kernel.accumulators, elements, strict=True))  # fmt: skip
    return values(*at.items(), *pairs)


def _stored(buffer: Any, expr: Any, index: Sequence[Any], at: Values) -> list[Any]:
    """Return the bindings that a value needs, and its store."""
    expand = FunctionExpander()
    value = expand(substitute(expr, at))
    bindings = [tirx.stmt.Bind(v, x) for v, x in expand.bindings]
    return [*bindings, tirx.BufferStore(buffer, value, index)]


def _fresh_bindings(lets: Sequence[tuple[Any, Any]], at: Values) -> tuple[list[Any], Values]:
    """Return bindings under fresh variables, and the values extended by these."""
    bindings: list[Any] = []
    at = values(*at.items())
    for var, expr in lets:
        expand, fresh = FunctionExpander(), tirx.Var(var.name, str(var.ty.dtype))
        value = expand(substitute(expr, at))
        bindings += [tirx.stmt.Bind(x, y) for x, y in (*expand.bindings, (fresh, value))]
        at[var] = fresh
    return bindings, at
