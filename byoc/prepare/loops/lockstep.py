"""Run the threads of a GPU's block statement by statement, on a CPU.

    Before: in each thread t:  shared[t] = x[t];  y[t] = shared[7 - t]
    After:  for t in range(8): shared[t] = x[t]
            for t in range(8): y[t] = shared[7 - t]

All threads finish a statement before the first starts the next. So they meet at each point where a
barrier may be, and what they do in between may have any order, or the kernel has a race. What a
thread has of its own gets a place for each thread; what all threads agree on stays as it is
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.tvm_compat import TensorLoad
from .agreed_values import LOCAL, AgreedValues

SYNC, INVARIANT = "tirx.tvm_storage_sync", "tirx.tvm_thread_invariant"
#: The memory of threads that a CPU has, too.
SHARED = ("shared", "shared.dyn")
STATEMENTS = ("AllocBuffer", "AssertStmt", "AttrStmt", "Bind", "BufferStore", "Evaluate", "For",
              "IfThenElse", "SeqStmt", "While")  # fmt: skip
#: What calls have in their names that need threads, pointers, or functions of a GPU.
FOREIGN = ("shuffle", "allreduce", "ptx_", "mma", "warp_", "address", "access_ptr", "extern",
           "packed", "cuda")  # fmt: skip
#: The greatest ``TCallEffectKind`` of calls that only read.
READS = 2


@tvm_ffi.register_error
class NotLockstep(ValueError):
    """Why the threads of a kernel do not run statement by statement."""


def in_lockstep(body: Any, threads: Sequence[tuple[Any, int]]) -> Any:
    """Return the body of a block of threads for one thread.

    Args:
        body: What each thread does, in which loops over threads are no more.
        threads: The variable and the extent of each dimension, the slowest first.

    Raises:
        NotLockstep: The reason.
    """
    tvm_ffi.structural_walk(body, [(ir.Call, _check_call), (tirx.Stmt, _check_statement)])
    return _Lockstep(body, threads).run(body)


def seq(parts: Sequence[Any]) -> Any:
    """Return statements in order as one."""
    kept = [p for p in parts if p is not None]
    nothing = tirx.Evaluate(tirx.const(0, "int32"))
    return kept[0] if len(kept) == 1 else tirx.SeqStmt(kept) if kept else nothing


def _calls(node: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (ir.Call, found.append))
    return found


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))


def _check_call(call: Any) -> None:
    if (name := _name(call)) in (SYNC, INVARIANT):
        return
    effect = call.op.get_attr("TCallEffectKind") if isinstance(call.op, ir.Op) else None
    if effect is None or int(effect) > READS or any(part in name for part in FOREIGN):
        raise NotLockstep(f"call {name.rpartition('.')[2] or 'a function'}")


def _check_statement(stmt: Any) -> None:
    if (kind := type(stmt).__name__) not in STATEMENTS:
        raise NotLockstep(f"have a statement {kind}")


class _Lockstep:
    """Rewrites the statements of one kernel."""

    def __init__(self, body: Any, threads: Sequence[tuple[Any, int]]) -> None:
        self._threads = threads
        self._uniform = AgreedValues(body, [var for var, _ in threads])
        self._buffers: NodeDict[tuple[Any, bool]] = NodeDict()  # new, and whether each has its own
        self._inner: NodeDict[bool] = NodeDict()  # what a thread allocates where not all may come
        self._values: NodeDict[Any] = NodeDict()  # variables that differ, as buffers

    def run(self, stmt: Any) -> Any:
        """Return a statement that all threads execute, for one thread."""
        if isinstance(stmt, tirx.SeqStmt):
            return seq([self.run(s) for s in stmt.seq])
        if isinstance(stmt, tirx.AllocBuffer):
            return self._allocate(stmt.buffer)
        if isinstance(stmt, tirx.AttrStmt):
            return self.run(_attributed(stmt))
        if isinstance(stmt, tirx.Evaluate):
            return None  # a barrier, or a value that nothing uses
        if isinstance(stmt, tirx.Bind) and self._uniform.varies(stmt.value):
            return self._keep(stmt)
        if isinstance(stmt, tirx.IfThenElse) and not self._uniform.varies(stmt.condition):
            other = stmt.else_case and self.run(stmt.else_case)
            then = seq([self.run(stmt.then_case)])
            return tirx.IfThenElse(self._renamed(stmt.condition), then, other)
        if isinstance(stmt, tirx.While) and not self._uniform.varies(stmt.condition):
            return tirx.While(self._renamed(stmt.condition), seq([self.run(stmt.body)]))
        if isinstance(stmt, tirx.For) and self._together(stmt):
            bounds = (self._renamed(stmt.min), self._renamed(stmt.extent))
            body = seq([self.run(stmt.body)])
            return tirx.For(stmt.loop_var, *bounds, tirx.ForKind.SERIAL, body)
        for buffer in _check_part(stmt):
            self._inner[buffer] = True
        return self._renamed(stmt) if not self._uniform.varies(stmt) else self._each(stmt)

    def _together(self, loop: Any) -> bool:
        """Whether threads meet in a loop, or it allocates or runs once for all of them."""
        if self._uniform.varies(loop.min) or self._uniform.varies(loop.extent):
            return False
        found: list[bool] = [_name(c) == SYNC for c in _calls(loop)]
        tvm_ffi.structural_walk(loop, [
            ((tirx.AllocBuffer, tirx.AttrStmt), lambda n: found.append(True)),
            (tirx.BufferStore, lambda n: found.append(
                _scope(n.buffer) in SHARED or not self._uniform.varies(n))),
        ])  # fmt: skip
        return any(found)

    def _allocate(self, buffer: Any) -> Any:
        scope = _scope(buffer)
        if scope not in (LOCAL, "global", *SHARED):
            raise NotLockstep(f"use memory of scope {scope}")
        own = scope == LOCAL and self._uniform.varies(buffer)
        self._buffers[buffer] = new, _ = _buffer(self._shape(own, buffer.shape), buffer), own
        return tirx.AllocBuffer(new)

    def _shape(self, own: bool, shape: Sequence[Any]) -> list[Any]:
        return [*(tirx.const(e, "int32") for _, e in self._threads if own), *shape]

    def _keep(self, bind: Any) -> Any:
        """Store a value that differs among threads, for each of them."""
        dtype = str(bind.var.ty.dtype)
        if dtype == "handle":
            raise NotLockstep(f"keep a pointer ({bind.var.name})")
        new = tirx.decl_buffer(self._shape(True, ()), dtype, name=bind.var.name)
        value = bind.value

        def body(numbers: list[Any]) -> Any:
            return tirx.BufferStore(new, self._renamed(value, numbers), numbers)

        stored = self._over_threads(body)
        self._values[bind.var] = new
        return seq([tirx.AllocBuffer(new), stored])

    def _each(self, stmt: Any) -> Any:
        return self._over_threads(lambda numbers: self._renamed(stmt, numbers))

    def _over_threads(self, body: Callable[[list[Any]], Any]) -> Any:
        numbers = [tirx.Var(str(v.name), str(v.ty.dtype)) for v, _ in self._threads]
        inner = body(numbers)
        for var, (_, extent) in reversed(list(zip(numbers, self._threads, strict=True))):
            zero, end = (tirx.const(k, str(var.ty.dtype)) for k in (0, extent))
            inner = tirx.For(var, zero, end, tirx.ForKind.SERIAL, inner)
        return inner

    def _renamed(self, node: Any, numbers: Sequence[Any] = ()) -> Any:
        """Return a node with new buffers and, in a loop over threads, the numbers of threads."""
        threads: NodeDict[Any] = NodeDict()
        for (var, _), number in zip(self._threads, numbers, strict=bool(numbers)):
            threads[var] = number

        def place(buffer: Any, indices: Any, mutator: Any) -> tuple[Any, list[Any]]:
            if buffer not in self._buffers and buffer not in self._inner:
                _check_outer(buffer)
            new, own = self._buffers.get(buffer) or (buffer, False)
            return new, [*(numbers if own else ()), *(mutator.mutate(i) for i in indices)]

        def load(node: Any, mutator: Any) -> Any:
            return tirx.BufferLoad(*place(node.source, node.indices, mutator))

        def store(node: Any, mutator: Any) -> Any:
            buffer, indices = place(node.buffer, node.indices, mutator)
            return tirx.BufferStore(buffer, mutator.mutate(node.value), indices)

        def variable(node: Any, mutator: Any) -> Any:
            if node in self._buffers:
                raise NotLockstep(f"use a pointer to {node.name}")
            if (kept := self._values.get(node)) is not None:
                return tirx.BufferLoad(kept, numbers)
            return threads[node] if node in threads else node

        def call(node: Any, mutator: Any) -> Any:
            same = _name(node) == INVARIANT
            return mutator.mutate(node.args[0]) if same else mutator.default_mutate(node)

        def attribute(node: Any, mutator: Any) -> Any:
            return mutator.mutate(_attributed(node))

        return tvm_ffi.structural_mutate(node, [
            (TensorLoad, load), (tirx.BufferStore, store), (ir.Var, variable), (ir.Call, call),
            (tirx.AttrStmt, attribute),
        ])  # fmt: skip


def _attributed(stmt: Any) -> Any:
    """Return what is under a loop over threads or a hint to a code generator."""
    if (key := str(stmt.attr_key)) != "thread_extent" and not key.startswith("pragma_"):
        raise NotLockstep(f"have an attribute {key}")
    return stmt.body


def _check_part(stmt: Any) -> list[Any]:
    """Check a statement that each thread executes alone: no barrier may be in it.

    Returns:
        The buffers that it allocates.
    """
    own: list[Any] = []
    loads: list[Any] = []
    stores: list[Any] = []
    rules = [(TensorLoad, lambda n: loads.append(n.source)),
             (tirx.BufferStore, lambda n: stores.append(n.buffer))]  # fmt: skip
    tvm_ffi.structural_walk(stmt, rules)
    if any(_name(c) == SYNC for c in _calls(stmt)):
        raise NotLockstep("wait for each other where not all may come")
    tvm_ffi.structural_walk(stmt, (tirx.AllocBuffer, lambda n: own.append(n.buffer)))
    if scope := next((s for s in map(_scope, own) if s not in (LOCAL, "global")), None):
        raise NotLockstep(f"allocate {scope} memory where not all may come")
    written = [b for b in stores if _scope(b) in SHARED]
    if not _is_single_store(stmt) and any(b.same_as(s) for b in loads for s in written):
        raise NotLockstep("read and write shared memory where not all may come")
    return own


def _check_outer(buffer: Any) -> None:
    """Check a buffer that the kernel does not allocate."""
    if _scope(buffer) != "global":
        raise NotLockstep(f"keep {buffer.name} from one loop to another")


def _is_single_store(stmt: Any) -> bool:
    while isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
        stmt = stmt.then_case
    return isinstance(stmt, tirx.BufferStore)


def _scope(buffer: Any) -> str:
    return str(buffer.scope())


def _buffer(shape: Sequence[Any], like: Any) -> Any:
    return tirx.decl_buffer(shape, str(like.ty.dtype), name=str(like.name))
