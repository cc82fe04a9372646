"""While loops that count, as ``for`` loops.

Before:

    k[0] = a
    while k[0] < n:
        body(k[0])
        k[0] = k[0] + s

After, for a number s above 0:

    for i in range(max(0, ceil((n - a) / s))):
        k[0] = a + s * i
        body(a + s * i)
        k[0] = k[0] + s
    k[0] = a + s * max(0, ceil((n - a) / s))

Neither a nor n loads anything, and nothing else stores to k[0]. The counter is still stored
and loaded: threads that share it race, and the body may load ``k[j]`` for j = 0.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ...support.tvm_compat import SBlock, TensorLoad, same_access, source_of
from .node import items


def with_counted_loops(statements: list[Any], func: Any) -> list[Any]:
    """Return statements of a PrimFunc with their counting ``while`` loops as ``for`` loops."""
    if not any(isinstance(s, tirx.While) for s in statements):
        return statements
    out: list[Any] = []
    for stmt in statements:
        place = len(out) - 1
        while place >= 0 and isinstance(out[place], tirx.AllocBuffer):
            place -= 1
        counted = _counted(out[place], stmt) if place >= 0 else None
        if counted is None or _is_viewed(func, out[place].buffer):
            out.append(stmt)
        else:
            del out[place]
            out += counted
    return out


def _counted(start: Any, loop: Any) -> list[Any] | None:
    """The loop and the last value of its counter; None for other loops."""
    if not (isinstance(start, tirx.BufferStore) and isinstance(loop, tirx.While)):
        return None
    end = _end(loop.condition, start)
    body = items(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else []
    if str(start.value.ty.dtype) not in ("int32", "int64"):
        return None
    if end is None or len(body) < 2 or _loads(start.value) or any(map(_loads, start.indices)):
        return None
    step = _step(body[-1], start)
    rest = tirx.SeqStmt(body[:-1]) if len(body) > 2 else body[0]
    if step is None or _stores_to(rest, start.buffer) or _loads(end):
        return None
    dtype = str(start.value.ty.dtype)
    number, zero = tirx.const(step, dtype), tirx.const(0, dtype)
    times = tirx.max(zero, tirx.floordiv(end - start.value + (number - 1), number))
    index = tirx.Var("i", dtype)

    def value(load: Any) -> Any:
        return start.value + index * number if _is(load, start) else load

    now = tirx.BufferStore(start.buffer, start.value + index * number, start.indices)
    inside = tirx.SeqStmt([now, tvm_ffi.structural_map(rest, (TensorLoad, value)), body[-1]])
    last = tirx.BufferStore(start.buffer, start.value + times * number, start.indices)
    return [tirx.For(index, zero, times, tirx.ForKind.SERIAL, inside), last]


def _end(condition: Any, counter: Any) -> Any | None:
    """What the counter stays below, in the condition of a loop."""
    if isinstance(condition, (tirx.LT, tirx.LE)) and _is(condition.a, counter):
        return condition.b if isinstance(condition, tirx.LT) else condition.b + 1
    if isinstance(condition, (tirx.GT, tirx.GE)) and _is(condition.b, counter):
        return condition.a if isinstance(condition, tirx.GT) else condition.a + 1
    return None


def _step(stmt: Any, counter: Any) -> int | None:
    """By how much a statement increases the counter."""
    if not (isinstance(stmt, tirx.BufferStore) and isinstance(stmt.value, tirx.Add)):
        return None
    if not stmt.buffer.same_as(counter.buffer) or not _same_place(stmt.indices, counter.indices):
        return None
    step = stmt.value.b
    if not _is(stmt.value.a, counter) or not isinstance(step, tirx.IntImm) or int(step) < 1:
        return None
    return int(step)


def _is(expr: Any, counter: Any) -> bool:
    return (
        isinstance(expr, TensorLoad)
        and source_of(expr).same_as(counter.buffer)
        and _same_place(expr.indices, counter.indices)
    )


def _same_place(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(map(same_access, items(a), items(b)))


def _is_viewed(func: Any, buffer: Any) -> bool:
    """Whether a buffer has another name, under which it may be stored to."""
    viewed: list[Any] = []
    tvm_ffi.structural_walk(
        func.body,
        [
            (tirx.DeclBuffer, lambda s: viewed.append(s.data)),
            (SBlock, lambda b: viewed.extend(source_of(m.source) for m in items(b.match_buffers))),
        ],
    )
    names: list[bool] = []
    for data in viewed:
        tvm_ffi.structural_walk(data, (ir.Var, lambda v: names.append(v.same_as(buffer))))
    return any(names)


def _loads(expr: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (TensorLoad, found.append))
    return bool(found)


def _stores_to(stmt: Any, buffer: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(
        stmt, (tirx.BufferStore, lambda s: found.append(s.buffer.same_as(buffer)))
    )
    return any(found)
