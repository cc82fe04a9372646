"""Memory of the threads of a GPU's block, in which one thread of a CPU does their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ....analysis.lifting.tir.node import NodeDict, as_dtype
from ....analysis.support.ir.call_ops import op_name
from ....analysis.support.tvm_compat import TensorLoad
from .agreed_values import LOCAL, AgreedValues
from .thread_checks import INVARIANT, SHARED, NotLockstep, attributed, scope_of

#: What a statement does in the thread of these numbers.
Body = Callable[[list[Any]], Any]


class ThreadMemory:
    """The buffers of a kernel on a CPU, and loops over its threads.

    Attributes:
        mask: Which threads are active, as a buffer of bools; None if all are.
    """

    def __init__(self, threads: Sequence[tuple[Any, Any]], agreed: AgreedValues) -> None:
        self.threads, self._agreed = threads, agreed
        self.mask: Any = None
        self._buffers: NodeDict[tuple[Any, bool]] = NodeDict()  # new, and whether each has its own
        self._inner: NodeDict[bool] = NodeDict()  # what a thread allocates in a part of its own
        self._values: NodeDict[Any] = NodeDict()  # variables that differ, as buffers

    @contextmanager
    def masked(self, mask: Any) -> Iterator[None]:
        """Only some threads are active in what is rewritten meanwhile."""
        outer, self.mask = self.mask, mask
        yield
        self.mask = outer

    def allocate(self, buffer: Any) -> Any:
        """Return the statement that allocates a buffer of the kernel."""
        if (scope := scope_of(buffer)) not in (LOCAL, *SHARED):
            raise NotLockstep(f"allocate {buffer.name} in memory of scope {scope}")
        if len(buffer.ty.allocated_addr):
            raise NotLockstep(f"allocate {buffer.name} at a fixed address")
        own = scope == LOCAL and self._agreed.varies(buffer)
        shape = [*(self._extents() if own else ()), *buffer.shape]
        new = tirx.decl_buffer(shape, str(buffer.ty.dtype), name=str(buffer.name))
        self._buffers[buffer] = new, own
        return tirx.AllocBuffer(new)

    def hold(self, buffers: Sequence[Any]) -> None:
        """Note buffers that each thread allocates itself."""
        for buffer in buffers:
            self._inner[buffer] = True

    def place(self, name: str, dtype: str) -> Any:
        """Return a new buffer with an element for each thread."""
        return tirx.decl_buffer(self._extents(), dtype, name=name)

    def variable(self, var: Any) -> Any:
        """Return a new buffer for the values of a variable that differ among threads."""
        if (dtype := str(var.ty.dtype)) == "handle":
            raise NotLockstep(f"keep a pointer ({var.name})")
        self._values[var] = self.place(str(var.name), dtype)
        return self._values[var]

    def each(self, body: Body, all_threads: bool = False) -> Any:
        """Return a loop over the active threads, or over all of them."""
        numbers = [tirx.Var(str(v.name), str(v.ty.dtype)) for v, _ in self.threads]
        inner = body(numbers)
        if self.mask is not None and not all_threads:
            inner = tirx.IfThenElse(tirx.BufferLoad(self.mask, numbers), inner, None)
        for var, (_, extent) in reversed(list(zip(numbers, self.threads, strict=True))):
            zero = tirx.const(0, dtype := str(var.ty.dtype))
            inner = tirx.For(var, zero, as_dtype(extent, dtype), tirx.ForKind.SERIAL, inner)
        return inner

    def renamed(self, node: Any, numbers: Sequence[Any] = ()) -> Any:
        """Return a node with new buffers and, in a loop over threads, their numbers."""
        threads: NodeDict[Any] = NodeDict()
        for (var, _), number in zip(self.threads, numbers, strict=bool(numbers)):
            threads[var] = number

        def load(node: Any, mutator: Any) -> Any:
            buffer, own = self._buffer(node.source)
            indices = map(mutator.mutate, node.indices)
            return tirx.BufferLoad(buffer, [*(numbers if own else ()), *indices])

        def store(node: Any, mutator: Any) -> Any:
            buffer, own = self._buffer(node.buffer)
            indices = [*(numbers if own else ()), *map(mutator.mutate, node.indices)]
            return tirx.BufferStore(buffer, mutator.mutate(node.value), indices)

        def variable(node: Any, mutator: Any) -> Any:
            if node in self._buffers:
                raise NotLockstep(f"use a pointer to {node.name}")
            if (kept := self._values.get(node)) is not None:
                return tirx.BufferLoad(kept, numbers)
            return threads[node] if node in threads else node

        def call(node: Any, mutator: Any) -> Any:
            same = op_name(node) == INVARIANT
            return mutator.mutate(node.args[0]) if same else mutator.default_mutate(node)

        def attribute(node: Any, mutator: Any) -> Any:
            return mutator.mutate(attributed(node))

        return tvm_ffi.structural_mutate(node, [
            (TensorLoad, load), (tirx.BufferStore, store), (ir.Var, variable), (ir.Call, call),
            (tirx.AttrStmt, attribute),
        ])  # fmt: skip

    def buffer(self, buffer: Any) -> Any:
        """Return the new buffer for one that threads share."""
        return self._buffer(buffer)[0]

    def _buffer(self, buffer: Any) -> tuple[Any, bool]:
        if buffer in self._buffers:
            return self._buffers[buffer]
        if buffer not in self._inner and scope_of(buffer) != "global":
            raise NotLockstep(f"keep {buffer.name} from one loop to another")
        return buffer, False

    def _extents(self) -> list[Any]:
        return [extent for _, extent in self.threads]
