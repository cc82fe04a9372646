"""Kernels: the meaning of loops that are bound to ``blockIdx`` and ``threadIdx``.

All loops of a kernel with one tag are one thread index. All threads execute a statement before the
next one, as the barriers that TVM inserts ensure for shared memory. So a kernel is a program over
one state. Each element of ``local`` memory has one more coordinate for each thread index, each
element of ``shared`` memory one for each block index, and a store is a family of stores over the
threads. Accesses that no barrier orders must not race, see `KernelLaunch.check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...terms.condition_terms import conj
from ...terms.term import SIZES, ZERO, Int, TensorVar, Term, Var, as_int, load
from ...terms.traversal import free, map_loads, substitute, tensors
from ..effects.effects import Effects, Write, pinned_value
from ..tir.node import items
from ..tir.unliftable import Unliftable
from .shared_accesses import Index, Path, SharedAccess, is_owned

DIVERGENT = -1

WARP = 32
IN_STEP = "all threads of a warp execute a statement before one of them executes the next"


@dataclass
class KernelLaunch:
    """The threads of one kernel launch, and their shared memory."""

    at: dict[str, Int]
    synchronised: bool
    extended: dict[TensorVar, TensorVar] = field(default_factory=dict)
    prefix: dict[TensorVar, Index] = field(default_factory=dict)
    path: list[tuple[int, int]] = field(default_factory=list)
    sequences: int = 0
    over: frozenset[Var] = frozenset()  # the threads that the present block reduces over
    conditions: list[Term] = field(default_factory=list)
    reads: list[SharedAccess] = field(default_factory=list)
    stores: list[SharedAccess] = field(default_factory=list)
    changing: set[TensorVar] = field(default_factory=set)  # all tensors with a store
    #: What the order of accesses rests on beside barriers, in words.
    assumed: dict[str, None] = field(default_factory=dict)
    #: Tensors in which data decides where threads store; no two threads are assumed to meet there.
    scattered: set[TensorVar] = field(default_factory=set)

    @cached_property
    def threads(self) -> frozenset[Var]:
        """Return the thread indices that take more than one value."""
        return frozenset(p.atom for p in self.at.values() if isinstance(p.atom, Var))

    @property
    def is_over_blocks(self) -> bool:
        """Return whether the only thread index is a ``blockIdx``.

        What a kernel allocates is then each block's own. With more indices, some could be bound
        inside the allocation and share it.
        """
        return len(self.at) == 1 and next(iter(self.at)).startswith("blockIdx")

    def thread(self, var: Var) -> str:
        """Return the tag of a thread index."""
        return next(tag for tag, p in self.at.items() if p.atom is var)

    @contextmanager
    def under(self, condition: Term) -> Iterator[None]:
        """Execute the statements inside under a condition."""
        depth = len(self.path)
        self.conditions.append(condition)
        if not self.threads.isdisjoint(free(condition)):
            self.path.append((DIVERGENT, depth))
        try:
            yield
        finally:
            self.conditions.pop()
            del self.path[depth:]

    def sequence(self, parts: Sequence[Any]) -> Iterator[Any]:
        """Yield the parts of a sequence of statements, one at a time."""
        self.sequences += 1
        number = self.sequences
        for n, part in enumerate(parts):
            self.path.append((number, n))
            yield part
            self.path.pop()

    def store(
        self, tensor: TensorVar, index: Index, value: Term, loops: Sequence[Var] = ()
    ) -> tuple[Var, ...]:
        """Record a store, and return the threads over which it is a family."""
        varies = self.differ((*index, value))
        self.changing.add(tensor)
        if not self.is_private(tensor):
            path, guard = tuple(self.path), conj(*self.conditions)
            inside = frozenset(loops)
            self.stores.append(SharedAccess(tensor, index, path, guard, varies, loops=inside))
        return tuple(sorted(varies - self.over, key=lambda var: var.uid))

    def read(self, tensor: TensorVar, index: Index, loops: Sequence[Var] = ()) -> None:
        """Record a load."""
        if not self.is_private(tensor):
            guard, path = conj(*self.conditions), tuple(self.path)
            follows = any(s.tensor is tensor for s in self.stores)
            self.reads.append(SharedAccess(tensor, index, path, guard, loops=frozenset(loops),
                                           follows=follows))  # fmt: skip

    def is_private(self, tensor: TensorVar) -> bool:
        """Return whether each thread has its own copy of the tensor."""
        return tensor in self.prefix and self.threads <= {p.atom for p in self.prefix[tensor]}

    def private(self, tensor: TensorVar, scope: str) -> TensorVar:
        """Return the tensor with coordinates for the owner of each copy."""
        extended = self.extended.get(tensor)
        if extended is None:
            if not scope.startswith(("local", "shared")):
                raise Unliftable(f"unsupported storage scope {scope} in a kernel")
            owners = "blockIdx" if scope.startswith("shared") else ""
            thread_indices = tuple(
                poly for tag, poly in self.at.items() if tag.startswith(owners) and poly is not ZERO
            )
            extents = tuple(_extent(p) for p in thread_indices)
            extended = TensorVar(tensor.name, (*extents, *tensor.shape), tensor.dtype)
            self.extended[tensor] = extended
            self.prefix[extended] = thread_indices
        return extended

    def differ(self, terms: Sequence[Term]) -> frozenset[Var]:
        """Return the thread indices on which terms, or the enclosing conditions, depend."""
        variables = frozenset[Var]().union(*map(free, (*terms, *self.conditions)))
        return variables & self.threads

    # ------------------------------------------------------------------ races

    def check(self, shared: frozenset[TensorVar], effects: Effects) -> None:
        """Refuse unordered accesses of different threads to one element.

        Threads that store where data says are assumed to store in different elements.

        Barriers order the statements of one uniform sequence for shared memory. Any other access
        must be to an element of the thread's own.
        """
        changing = frozenset(self.changing)
        stores, reads = ([a.at_any_time(changing) for a in x] for x in (self.stores, self.reads))
        for n, store in enumerate(stores):
            ordered = self.synchronised and store.tensor in shared
            for var in self.threads:
                if self._is_sole_store(store, var) or self._same(store.tensor, var, effects):
                    continue
                if self._repeats(store, var, effects):
                    continue
                if not any(tensors(e) and var in free(e) for e in store.index):
                    raise Unliftable("threads store to the same element", store.tensor.name)
                self.scattered.add(store.tensor)
            for k, access in enumerate((*stores[:n], *reads)):
                if access.tensor is not store.tensor or (
                    ordered and may_be_separated(store.path, access.path)
                ):
                    continue
                if store.tensor in self.scattered and access.index == store.index:
                    continue
                may_see = k >= n and self._may_see(access, store)
                if not all(self._agree(store, access, v, effects, may_see) for v in self.threads):
                    raise Unliftable(
                        "threads access each other's elements without a barrier", store.tensor.name
                    )

    def _agree(
        self, store: SharedAccess, access: SharedAccess, var: Var, effects: Effects, may_see: bool
    ) -> bool:
        """Whether threads access elements of their own, or repeat a store that no load may see."""
        if is_owned(store, access, var) or _same_thread(store, access, var):
            return True
        is_same = access.index == store.index
        return is_same and not may_see and self._repeats(store, var, effects)

    def _is_sole_store(self, access: SharedAccess, var: Var) -> bool:
        """Whether only one thread stores an element, or all store the same."""
        return (
            var not in access.varies
            or is_owned(access, access, var)
            or _same_thread(access, access, var)
        )

    def _same(self, tensor: TensorVar, var: Var, effects: Effects) -> bool:
        """Whether all threads finally stored the same value, and none loaded it before."""
        loaded = any(r.tensor is tensor for r in self.reads)
        return not loaded and self._final(tensor, var, effects)

    def _final(self, tensor: TensorVar, var: Var, effects: Effects) -> bool:
        """Whether all threads finally stored the same value."""
        writes = effects.writes.get(tensor, ())
        return not any(var in free(x) for w in writes for x in (w.guard, w.value, *w.index))

    def _repeats(self, store: SharedAccess, var: Var, effects: Effects) -> bool:
        """Whether threads of one warp compute the same element of the same values.

        They all load before one of them stores, which is recorded. A warp has 32 threads with
        consecutive numbers, and ``threadIdx.x`` runs fastest. A store under a condition on the
        thread, or of a value of its own, is not repeated by the others.
        """
        if var in store.varies:
            return False
        extent = None if var.extent is None else var.extent.const
        if extent is None or WARP % extent or self.thread(var) != "threadIdx.x":
            return False
        if any(var in free(e) for e in store.index) or not self._final(store.tensor, var, effects):
            return False
        self.assumed[IN_STEP] = None
        return True

    def _may_see(self, access: SharedAccess, store: SharedAccess) -> bool:
        """Whether a load in global memory may be executed after the store of another thread.

        That is a counter or a flag: without a barrier, it is unknown which of the stores are seen.
        """
        is_after = access.follows or bool(access.loops & store.loops)
        return is_after and access.tensor not in self.prefix


def _same_thread(a: SharedAccess, b: SharedAccess, var: Var) -> bool:
    """Whether two accesses are those of the same thread."""
    first, second = pinned_value(a.guard, var), pinned_value(b.guard, var)
    return first is not None and first is second and all(v.kind in SIZES for v in free(first))


def _extent(poly: Int) -> Int:
    assert isinstance(poly.atom, Var) and poly.atom.extent is not None
    return poly.atom.extent


def may_be_separated(first: Path, second: Path) -> bool:
    """Return whether a barrier can separate two statements."""
    for a, b in zip(first, second, strict=False):
        if a == b and a[0] == DIVERGENT:
            return False
        if a != b:
            return a[0] == b[0] != DIVERGENT
    return False


def bound_threads(stmt: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tag and extent of each loop in a statement that is bound to a thread."""
    todo = [stmt]
    while todo:
        node = todo.pop()
        kind = type(node).__name__
        tag = thread_tag(node) if kind in ("For", "AttrStmt") else ""
        if tag and not tag.startswith("vthread"):
            yield tag, (node.extent if kind == "For" else node.value)
        if kind == "SeqStmt":
            todo += items(node.seq)
        elif kind == "SBlockRealize":
            todo += [p for p in (node.block.init, node.block.body) if p is not None]
        elif kind == "IfThenElse":
            todo += [p for p in (node.then_case, node.else_case) if p is not None]
        elif hasattr(node, "body"):
            todo.append(node.body)


def thread_tag(stmt: Any) -> str:
    """Return the thread that a loop runs on, ``threadIdx.x``; empty for any other loop."""
    bound = getattr(stmt, "thread_binding", None)
    bound = getattr(stmt, "node", None) if bound is None else bound
    return str(getattr(bound, "thread_tag", ""))


def combine_threads(write: Write, tensor: TensorVar, prefix: Index, over: dict[Var, Var]) -> Write:
    """Return a store of a block that reduces over threads, with reduction variables for them.

    ``c[t] = c[t] + x[t]`` becomes ``c[t] = c[t] + x[r]``: each thread gets the whole sum.
    """
    renaming: dict[Var, Term] = {t: as_int(r) for t, r in over.items()}
    rank = len(prefix)

    def shifted(tensor: TensorVar, index: Index) -> Term:
        return load(tensor, (*prefix, *index[rank:]))

    def go(term: Term) -> Term:
        return map_loads(substitute(term, renaming), frozenset({tensor}), shifted)

    index = (*prefix, *(as_int(go(p)) for p in write.index[rank:]))
    own_vars = tuple(v for v in write.vars if v not in over)
    threads = tuple(v for p in prefix for v in free(p) if v in over)
    return replace(
        write, vars=(*own_vars, *threads), guard=go(write.guard), index=index, value=go(write.value)
    )


__all__ = ["KernelLaunch", "bound_threads", "combine_threads", "may_be_separated", "thread_tag"]
