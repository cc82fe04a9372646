"""Run the threads of a GPU's block statement by statement, on a CPU.

    Before: in each thread t:  shared[t] = x[t];  y[t] = shared[7 - t]
    After:  for t in range(8): shared[t] = x[t]
            for t in range(8): y[t] = shared[7 - t]

All threads finish a statement before the first starts the next. So they meet at each point where a
barrier may be, and what they do in between may have any order, or the kernel has a race. All load
before one stores, as in a warp, on which TVM's scans rely. What a
thread has of its own gets a place for each thread; what all threads agree on is computed once.
Where only some threads go and may meet, a mask says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ....analysis.blocks.tir import loads
from ....analysis.lifting.tir.node import NodeDict, items, substitute
from ....analysis.support.ir.call_ops import op_name
from ....analysis.support.tvm_compat import TensorLoad
from .agreed_values import REDUCTION, AgreedValues, Reduction
from .thread_checks import (
    ALL_REDUCE,
    SHARED,
    NotLockstep,
    allocated,
    attributed,
    check_kernel,
    exchanges,
    meets,
    runs_alone,
    scope_of,
    stored,
)
from .thread_memory import ThreadMemory

_ZERO = tirx.const(0, "int32")


def in_lockstep(body: Any, threads: Sequence[tuple[Any, Any]]) -> Any:
    """Return what a block of threads does, for one thread.

    Args:
        body: What each thread does.
        threads: The variable and the extent of each dimension, the slowest first.

    Raises:
        NotLockstep: The reason.
    """
    check_kernel(body)
    return _seq([_Lockstep(body, threads).run(body)])


class _Lockstep:
    """Rewrites the statements of one kernel."""

    def __init__(self, body: Any, threads: Sequence[tuple[Any, Any]]) -> None:
        self._agreed = AgreedValues(body, [var for var, _ in threads])
        self._memory = ThreadMemory(threads, self._agreed)
        self._rules: dict[str, Callable[[Any], Any]] = {
            "SeqStmt": lambda s: _seq([self.run(p) for p in s.seq]),
            "AllocBuffer": lambda s: self._memory.allocate(s.buffer),
            "AttrStmt": self._attribute, "Evaluate": _evaluate, "Bind": self._bind,
            "IfThenElse": self._branch, "While": self._while, "For": self._for,
        }  # fmt: skip

    def run(self, stmt: Any) -> Any:
        """Return a statement that the active threads execute; None if it does nothing."""
        return self._rules.get(type(stmt).__name__, self._other)(stmt)

    def _other(self, stmt: Any) -> Any:
        if self._memory.mask is None and not self._agreed.varies(stmt):
            return self._memory.renamed(stmt)
        if not exchanges(stmt):
            return self._part(stmt)
        value = self._memory.place("value", str(stmt.buffer.ty.dtype))
        if any(b.same_as(stmt.buffer) for b in _sources(stmt.indices)):
            raise NotLockstep(f"store in {stmt.buffer.name} where it says")

        def store(numbers: list[Any]) -> Any:
            indices = [self._memory.renamed(i, numbers) for i in stmt.indices]
            kept = tirx.BufferLoad(value, numbers)
            return tirx.BufferStore(self._memory.buffer(stmt.buffer), kept, indices)

        parts = [self._set(value, stmt.value), self._memory.each(store)]  # load before storing
        return _seq([tirx.AllocBuffer(value), *parts])

    def _part(self, stmt: Any) -> Any:
        """Let each thread execute a whole statement."""
        self._memory.hold(allocated(stmt))
        return self._memory.each(lambda numbers: self._memory.renamed(stmt, numbers))

    def _attribute(self, stmt: Any) -> Any:
        if str(stmt.attr_key) == REDUCTION:
            return self._reduce(Reduction.of(stmt))
        return self.run(attributed(stmt))

    def _bind(self, stmt: Any) -> Any:
        if self._memory.mask is None and not self._agreed.varies(stmt.var):
            return self._memory.renamed(stmt)
        kept = self._memory.variable(stmt.var)
        return _seq([tirx.AllocBuffer(kept), self._set(kept, stmt.value)])

    def _set(self, buffer: Any, value: Any, then: Callable[[list[Any]], Any] | None = None) -> Any:
        """Store a value for each active thread; ``then`` is what it does afterwards."""

        def body(numbers: list[Any]) -> Any:
            store = tirx.BufferStore(buffer, self._memory.renamed(value, numbers), numbers)
            return _seq([store, then(numbers) if then else None])

        return self._memory.each(body)

    def _fill(self, buffer: Any, value: Any) -> Any:
        """Store the same value for all threads."""
        return self._memory.each(lambda n: tirx.BufferStore(buffer, value, n), all_threads=True)

    def _together(self, conditions: Sequence[Any]) -> bool:
        """Whether threads agree on conditions, which are safe if none is active."""
        masked = self._memory.mask is not None
        return not any(self._agreed.varies(c) or (masked and loads(c)) for c in conditions)

    def _branch(self, stmt: Any) -> Any:
        if self._together([stmt.condition]):
            then, other = (p and self.run(p) for p in (stmt.then_case, stmt.else_case))
            return tirx.IfThenElse(self._memory.renamed(stmt.condition), _seq([then]), other)
        if runs_alone(stmt):
            return self._part(stmt)
        mask = self._memory.place("active", "bool")
        parts = [tirx.AllocBuffer(mask), self._fill(mask, _bool(False)),
                 self._set(mask, stmt.condition)]  # fmt: skip
        with self._memory.masked(mask):
            parts.append(self.run(stmt.then_case))
        if stmt.else_case is not None:
            rest = self._memory.place("inactive", "bool")
            parts += [tirx.AllocBuffer(rest), self._fill(rest, _bool(False)),
                      self._memory.each(lambda n: _store_not(rest, mask, n))]  # fmt: skip
            with self._memory.masked(rest):
                parts.append(self.run(stmt.else_case))
        return _seq(parts)

    def _while(self, stmt: Any) -> Any:
        if self._memory.mask is None and self._together([stmt.condition]):
            return tirx.While(self._memory.renamed(stmt.condition), _seq([self.run(stmt.body)]))
        if runs_alone(stmt):
            return self._part(stmt)
        mask, some = self._memory.place("active", "bool"), _single("some", "bool")

        def note(numbers: list[Any]) -> Any:
            found = tirx.BufferStore(some, _bool(True), [_ZERO])
            return tirx.IfThenElse(tirx.BufferLoad(mask, numbers), found, None)

        none = tirx.BufferStore(some, _bool(False), [_ZERO])
        parts = [tirx.AllocBuffer(mask), tirx.AllocBuffer(some), self._fill(mask, _bool(False)),
                 none, self._set(mask, stmt.condition, note)]  # fmt: skip
        with self._memory.masked(mask):
            body = _seq([self.run(stmt.body), none, self._set(mask, stmt.condition, note)])
        return _seq([*parts, tirx.While(tirx.BufferLoad(some, [_ZERO]), body)])

    def _for(self, stmt: Any) -> Any:
        if self._agreed.varies(stmt.loop_var):
            return self._part(stmt) if runs_alone(stmt) else self._uneven(stmt)
        if not self._meets(stmt):
            return self._part(stmt)
        bounds = map(self._memory.renamed, (stmt.min, stmt.extent))
        body = _seq([self.run(stmt.body)])
        return tirx.For(stmt.loop_var, *bounds, tirx.ForKind.SERIAL, body)

    def _meets(self, loop: Any) -> bool:
        """Whether threads may meet in a loop, or something in it happens once for all."""
        stores = [scope_of(b) in SHARED for b in stored(loop)]
        once = self._memory.mask is None and self._stores_once(loop)
        shared = any(stores) or exchanges(loop)
        return meets(loop) or once or shared or bool(allocated(loop))

    def _stores_once(self, loop: Any) -> bool:
        found: list[bool] = []
        kinds = (tirx.BufferStore, tirx.AssertStmt)
        tvm_ffi.structural_walk(loop, (kinds, lambda n: found.append(not self._agreed.varies(n))))
        return any(found)

    def _uneven(self, loop: Any) -> Any:
        """Let threads meet in a loop that some leave earlier than others."""
        dtype = str(loop.loop_var.ty.dtype)
        mask, most = self._memory.place("active", "bool"), _single("most", dtype)
        extent = self._memory.place("extent", dtype)
        step = tirx.Var(str(loop.loop_var.name), dtype)
        var, zero = self._memory.variable(loop.loop_var), tirx.const(0, dtype)

        def note(numbers: list[Any]) -> Any:
            longest = tirx.Max(tirx.BufferLoad(most, [_ZERO]), tirx.BufferLoad(extent, numbers))
            return tirx.BufferStore(most, longest, [_ZERO])

        def begin(numbers: list[Any]) -> Any:
            start = self._memory.renamed(loop.min, numbers)
            goes = tirx.LT(step, tirx.BufferLoad(extent, numbers))
            return _seq([tirx.BufferStore(var, tirx.Add(start, step), numbers),
                         tirx.BufferStore(mask, goes, numbers)])  # fmt: skip

        parts = [*map(tirx.AllocBuffer, (mask, most, extent, var)), self._fill(extent, zero)]
        parts += [tirx.BufferStore(most, zero, [_ZERO]), self._set(extent, loop.extent, note)]
        inner = [self._fill(mask, _bool(False)), self._memory.each(begin)]
        with self._memory.masked(mask):
            inner.append(self.run(loop.body))
        end = tirx.BufferLoad(most, [_ZERO])
        return _seq([*parts, tirx.For(step, zero, end, tirx.ForKind.SERIAL, _seq(inner))])

    def _reduce(self, reduction: Reduction) -> Any:
        """Combine the values of threads, and store the results in each of them."""
        threads = self._memory.threads
        if any(isinstance(t, ir.Var) and not any(t.same_as(v) for v, _ in threads)
               for t in reduction.threads):  # fmt: skip
            raise NotLockstep("reduce over something other than threads")
        kept = [k for k, (var, _) in enumerate(threads) if not reduction.over(var)]
        shape = [threads[k][1] for k in kept] or [tirx.const(1, "int32")]
        totals = [tirx.decl_buffer(shape, str(v.ty.dtype), name="total") for v in reduction.values]

        def at(numbers: Sequence[Any]) -> list[Any]:
            return [numbers[k] for k in kept] or [_ZERO]

        def start(numbers: list[Any]) -> Any:
            first = items(reduction.combiner.identity_element)
            return _seq([tirx.BufferStore(t, e, at(numbers))
                         for t, e in zip(totals, first, strict=True)])  # fmt: skip

        def add(numbers: list[Any]) -> Any:
            now = [tirx.BufferLoad(t, at(numbers)) for t in totals]
            values = [self._memory.renamed(v, numbers) for v in reduction.values]
            stores = _stores(totals, at(numbers), _combined(reduction.combiner, now, values))
            return tirx.IfThenElse(self._memory.renamed(reduction.condition, numbers), stores, None)

        def spread(numbers: list[Any]) -> Any:
            parts = [tirx.BufferStore(r.source, tirx.BufferLoad(t, at(numbers)), r.indices)
                     for r, t in zip(reduction.results, totals, strict=True)]  # fmt: skip
            return self._memory.renamed(_seq(parts), numbers)

        return _seq([*map(tirx.AllocBuffer, totals), self._memory.each(start, all_threads=True),
                     self._memory.each(add), self._memory.each(spread)])  # fmt: skip


def _seq(parts: Sequence[Any]) -> Any:
    kept = [p for p in parts if p is not None]
    return kept[0] if len(kept) == 1 else tirx.SeqStmt(kept) if kept else tirx.Evaluate(_ZERO)


def _evaluate(stmt: Any) -> None:
    """Drop a barrier, or a value that nothing uses."""
    if isinstance(stmt.value, ir.Call) and op_name(stmt.value) == ALL_REDUCE:
        raise NotLockstep("reduce over threads without a combiner")


def _sources(indices: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for index in indices:
        tvm_ffi.structural_walk(index, (TensorLoad, lambda n: found.append(n.source)))
    return found


def _bool(value: bool) -> Any:
    return tirx.const(value, "bool")


def _store_not(buffer: Any, mask: Any, numbers: Sequence[Any]) -> Any:
    return tirx.BufferStore(buffer, tirx.Not(tirx.BufferLoad(mask, numbers)), numbers)


def _single(name: str, dtype: str) -> Any:
    return tirx.decl_buffer([tirx.const(1, "int32")], dtype, name=name)


def _combined(combiner: Any, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    mapping: NodeDict[Any] = NodeDict()
    for var, value in zip([*combiner.lhs, *combiner.rhs], [*left, *right], strict=True):
        mapping[var] = value
    return [substitute(e, mapping) for e in items(combiner.result)]


def _stores(buffers: Sequence[Any], indices: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return the statements that store values which are all computed before."""
    names = [tirx.Var("combined", str(v.ty.dtype)) for v in values]
    binds = [tirx.Bind(n, v) for n, v in zip(names, values, strict=True)]
    return _seq([*binds, *(tirx.BufferStore(b, n, list(indices))
                           for b, n in zip(buffers, names, strict=True))])  # fmt: skip
