"""Kernels in a PrimFunc: loops bound to threads, and blocks that reduce over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..terms.order import nonneg
from ..terms.term import FALSE, ONE, SIZES, ZERO, Fold, Int, TensorVar, Term, Var, as_int, fresh
from ..terms.traversal import free, subterms, tensors
from .effects.effects import Effects, Write
from .loops.loop_summary import carried_by, close
from .loops.scatter_loops import close_scatter
from .parallel.threads import KernelLaunch, bound_threads, combine_threads
from .positive_extents import positive_with
from .state import ExecutionState
from .tir.unliftable import Unliftable

#: CUDA does not launch a kernel without blocks.
LAUNCHED = "each kernel is launched with at least one thread block"


def has_barriers(func: Any) -> bool:
    """Return whether TVM inserts barriers for shared memory: it does in the dialect ``s_tir``."""
    return bool((func.attrs or {}).get("s_tir", False))


def close_threads(tensor: TensorVar, writes: list[Write], kernel: KernelLaunch) -> list[Write]:
    """Return the stores of threads at indices from data as those of loops, which are folds."""
    if not all(_apart(a, b) for k, a in enumerate(writes) for b in writes[k + 1 :]):
        raise Unliftable("threads store several times to one element, as data decide", tensor.name)
    data = [e for w in writes for e in w.index if tensors(e)]
    chosen = {v for e in data for v in free(e)} & kernel.threads
    effects = Effects()
    effects.writes[tensor] = [
        replace(w, vars=tuple(v for v in w.vars if v not in chosen), distinct=False) for w in writes
    ]
    inner, *outer = [p.atom for p in reversed(kernel.at.values()) if p.atom in chosen]
    assert isinstance(inner, Var)
    closed = Effects()
    closed.writes[tensor] = [
        close_scatter(inner, tensor, w, effects, carried_by) for w in effects.writes[tensor]
    ]
    for var in outer:
        assert isinstance(var, Var)
        closed = close(var, closed)
    return closed.writes[tensor]


def _apart(first: Write, second: Write) -> bool:
    """Whether no two stores of two families are into one element."""
    try:
        return first.at(second.index, "")[0] is FALSE
    except Unliftable:
        return False


def _order(var: Var) -> int:
    return var.uid


class Kernels(ExecutionState):
    """The execution of kernels."""

    def on_thread(self, stmt: Any, var: Any, start: Int, tag: str) -> None:
        """Execute a loop bound to a thread; the outermost one launches the kernel."""
        if self.kernel is not None:
            self.env[var] = start + self.kernel.at[tag]
            self.run(stmt.body)
            return
        outside = set(self.values.values())
        self.kernel = kernel = KernelLaunch(self.launched(stmt), has_barriers(self.func))
        self.frames.append(Effects())
        try:
            self.on_thread(stmt, var, start, tag)
            effects = self.effects
        finally:
            self.frames.pop()
            self.kernel = None
        kernel.check(
            frozenset(t for t in kernel.prefix if self.scopes[t].startswith("shared")), effects
        )
        self.assumed |= kernel.assumed
        self.assume_apart(effects, kernel.scattered)
        if kernel.scattered and not self.distinct:
            raise Unliftable("threads store to the same element, as data decide")
        for tensor in kernel.scattered:
            effects.writes[tensor] = close_threads(tensor, effects.writes[tensor], kernel)
        private = [t for t, e in kernel.extended.items() if e in effects.writes]
        self.drop(effects, lambda tensor: tensor in kernel.prefix)
        self.effects.then(effects)
        self.lose([t for t in private if t in outside])

    def launched(self, stmt: Any) -> dict[str, Int]:
        """Return the thread indices of a kernel by their tags."""
        extents: dict[str, Int] = {}
        for tag, expr in bound_threads(stmt):
            extent = self.reader.index(expr)
            if tensors(extent) or any(v.kind not in SIZES for v in free(extent)):
                raise Unliftable("the number of threads is not constant", tag)
            if not nonneg(extent - 1):
                self.assumed[LAUNCHED] = None
            if extents.setdefault(tag, extent) is not extent:
                raise Unliftable("loops on one thread have different extents", tag)
        return {t: ZERO if e is ONE else as_int(fresh(e, "t")) for t, e in extents.items()}

    def is_launched_over(self, param: Any) -> bool:
        launches = any(positive_with(extent, param) for _, extent in bound_threads(self.func.body))
        if launches:
            self.assumed[LAUNCHED] = None
        return launches

    def begin_combining(self, over: set[Var], spatial: set[Var]) -> tuple[int, int]:
        """Return the numbers of accesses recorded before a block that reduces over threads."""
        kernel = self.kernel
        assert kernel is not None
        if any(not kernel.thread(v).startswith("threadIdx") for v in over):
            raise Unliftable("a reduction over thread blocks")
        if over & spatial or kernel.differ(()):
            raise Unliftable("not all threads take part in a reduction over threads")
        kernel.over = frozenset(over)
        return len(kernel.reads), len(kernel.stores)

    def combine(
        self, over: set[Var], inner: Effects, predicate: Term, noted: tuple[int, int]
    ) -> None:
        """Add the effects of a block that reduces over threads; all threads get the result."""
        kernel = self.kernel
        assert kernel is not None
        kernel.over = frozenset()
        guarded, effects = Effects(), Effects()
        guarded.then(inner, predicate)
        axes = {t: fresh(t.extent, "r") for t in sorted(over, key=_order) if t.extent is not None}
        for tensor, writes in guarded.writes.items():
            prefix = kernel.prefix.get(tensor, ())
            effects.writes[tensor] = [combine_threads(w, tensor, prefix, axes) for w in writes]
        for var in axes.values():
            effects = close(var, effects)
        values = [w.value for writes in effects.writes.values() for w in writes]
        if any(isinstance(t, Fold) for value in values for t in subterms(value)):
            raise Unliftable("unknown kind of reduction over threads")
        for noticed, count in zip((kernel.reads, kernel.stores), noted, strict=True):
            noticed[count:] = [a for a in noticed[count:] if a.tensor not in effects.writes]
        for tensor, writes in effects.writes.items():
            for write in writes:
                kernel.store(tensor, write.index, write.value)
        self.effects.then(effects)
