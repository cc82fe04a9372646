"""While loops that count, as ``for`` loops.

Before:

    k[0] = a
    while k[0] < n:
        body(k[0])
        k[0] = k[0] + s

After, for a number s above 0 (and with ``>`` for one below 0):

    for i in range(max(0, ceil((n - a) / s))):
        k[0] = a + s * i
        body(a + s * i)
        k[0] = k[0] + s
    k[0] = a + s * max(0, ceil((n - a) / s))

Statements between the first and the loop, or after the last in its body, may not use the counter.
Neither a nor n loads anything, and nothing else stores to k[0]. The counter is still stored and
loaded: threads that share it race, and the body may load ``k[j]`` for j = 0.
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
        counted = _counted(out[place], stmt) if place >= 0 else None
        while counted is None and place > 0 and _is_plain(out[place]):
            place -= 1
            counted = _counted(out[place], stmt)
        between = [] if counted is None else out[place + 1 :]
        if counted is None or any(_stores_to(s, out[place].buffer) for s in between):
            out.append(stmt)
        elif _is_viewed(func, out[place].buffer):
            out.append(stmt)
        else:
            del out[place]
            out += counted
    return out


def _is_plain(stmt: Any) -> bool:
    """Whether a statement allocates a buffer, or stores what no loop has changed."""
    if not isinstance(stmt, tirx.BufferStore):
        return isinstance(stmt, tirx.AllocBuffer)
    return not _loads(stmt.value) and not any(map(_loads, stmt.indices))


def _counted(start: Any, loop: Any) -> list[Any] | None:
    """The loop and the last value of its counter; None for other loops."""
    if not (isinstance(start, tirx.BufferStore) and isinstance(loop, tirx.While)):
        return None
    body = items(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else []
    if str(start.value.ty.dtype) not in ("int32", "int64"):
        return None
    if len(body) < 2 or _loads(start.value) or any(map(_loads, start.indices)):
        return None
    body = _with_step_last(body, start)
    step = _step(body[-1], start)
    end = None if step is None else _end(loop.condition, start, step)
    rest = tirx.SeqStmt(body[:-1]) if len(body) > 2 else body[0]
    if step is None or end is None or _stores_to(rest, start.buffer) or _loads(end):
        return None
    dtype = str(start.value.ty.dtype)
    number, zero = tirx.const(step, dtype), tirx.const(0, dtype)
    size, way = tirx.const(abs(step), dtype), end - start.value if step > 0 else start.value - end
    times = tirx.max(zero, tirx.floordiv(way + (size - 1), size))
    index = tirx.Var("i", dtype)

    def value(load: Any) -> Any:
        return start.value + index * number if _is(load, start) else load

    now = tirx.BufferStore(start.buffer, start.value + index * number, start.indices)
    inside = tirx.SeqStmt([now, tvm_ffi.structural_map(rest, (TensorLoad, value)), body[-1]])
    last = tirx.BufferStore(start.buffer, start.value + times * number, start.indices)
    return [tirx.For(index, zero, times, tirx.ForKind.SERIAL, inside), last]


def _with_step_last(body: list[Any], counter: Any) -> list[Any]:
    """The statements of an iteration, the step of the counter after those that do not use it."""
    for place in range(len(body) - 1, -1, -1):
        if _step(body[place], counter) is not None:
            return [*body[:place], *body[place + 1 :], body[place]]
        if _uses(body[place], counter.buffer):
            break
    return body


def _end(condition: Any, counter: Any, step: int) -> Any | None:
    """What the counter stays below, or above if it is counted down, in the condition of a loop."""
    if not isinstance(condition, (tirx.LT, tirx.LE, tirx.GT, tirx.GE)):
        return None
    rising = isinstance(condition, (tirx.LT, tirx.LE)) == bool(_is(condition.a, counter))
    if not (_is(condition.a, counter) or _is(condition.b, counter)) or rising != (step > 0):
        return None
    end = condition.b if _is(condition.a, counter) else condition.a
    if isinstance(condition, (tirx.LT, tirx.GT)):
        return end
    return end + 1 if rising else end - 1


def _step(stmt: Any, counter: Any) -> int | None:
    """By how much a statement increases the counter, below 0 if it decreases it."""
    if not isinstance(stmt, tirx.BufferStore) or not isinstance(stmt.value, (tirx.Add, tirx.Sub)):
        return None
    if not stmt.buffer.same_as(counter.buffer) or not _same_place(stmt.indices, counter.indices):
        return None
    step = stmt.value.b
    if not _is(stmt.value.a, counter) or not isinstance(step, tirx.IntImm) or int(step) == 0:
        return None
    return int(step) if isinstance(stmt.value, tirx.Add) else -int(step)


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


def _uses(stmt: Any, buffer: Any) -> bool:
    """Whether a statement loads from a buffer or stores to it."""
    read: list[bool] = []
    tvm_ffi.structural_walk(stmt, (TensorLoad, lambda x: read.append(source_of(x).same_as(buffer))))
    return any(read) or _stores_to(stmt, buffer)


def _stores_to(stmt: Any, buffer: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(
        stmt, (tirx.BufferStore, lambda s: found.append(s.buffer.same_as(buffer)))
    )
    return any(found)
