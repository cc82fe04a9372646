"""Run loops over threads of a GPU one after another, for a CPU.

    Before: for b in T.thread_binding(4, "blockIdx.x"):  for t in T.thread_binding(8, …): …
    After:  for b in range(4):  for t in range(8): …

Without shared memory and barriers, threads may run in any order, also in this one; what a thread
keeps of its own must not outlive its loop. Modules that were written for GPUs compute small steps
so, such as the routing of a mixture of experts. Threads that need each other run statement by
statement instead (`lockstep.py`), as those of MLC-LLM's products with experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.ir.call_ops import op_name
from ....analysis.support.tvm_compat import SBlock, TensorLoad
from .thread_checks import NotLockstep
from .thread_kernels import without_threads

#: Memory that each thread has of its own, or that does not need barriers.
SCOPES = ("", "global", "local")
#: What intrinsics have in their names by which threads wait for each other, or exchange values.
TOGETHER = ("storage_sync", "barrier", "shuffle", "allreduce", "ptx_", "mma", "thread_invariant",
            "warp_")  # fmt: skip
#: The kinds of targets that are CPUs.
CPUS = ("llvm", "c")
DO = ("expected a GPU as the target, or operators: relax.take of the words or the matrices of each "
      "row's expert, their dequantisation, and relax.matmul")  # fmt: skip


def serial_threads(mod: Any) -> Any:
    """Return the module without loops over threads and targets of GPUs; ``mod`` is not changed.

    Raises:
        ValueError: Threads of a PrimFunc do not run one after another, nor statement by statement.
    """
    changed: dict[Any, Any] = {}
    for gvar, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc):
            continue
        if _on_gpu(func):
            changed[gvar] = func = func.without_attr("target")
        if _has_threads(func):
            reason = "launch kernels" if _launches(func) else _together(func)
            try:
                changed[gvar] = without_threads(func) if reason else _serial(func)
            except NotLockstep as error:
                raise ValueError(f"compile: {gvar.name_hint} is for the threads of a GPU, which "
                                 f"{reason} and {error}; {DO}") from error  # fmt: skip
    if not changed:
        return mod
    out = mod.clone()
    for gvar, func in changed.items():
        out.update_func(gvar, func)
    return out


def _on_gpu(func: Any) -> bool:
    """Whether a PrimFunc says that it is for another target than a CPU."""
    target = func.attrs["target"] if func.attrs and "target" in func.attrs else None
    return target is not None and str(target.kind.name) not in CPUS


def _has_threads(func: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, lambda n: found.append(n.thread_binding)))
    return any(binding is not None for binding in found) or _launches(func)


def _launches(func: Any) -> bool:
    """Whether a PrimFunc has kernels that are lowered already."""
    found: list[str] = []
    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, lambda n: found.append(str(n.attr_key))))
    return "thread_extent" in found


def _together(func: Any) -> str:
    """Return why the threads of a PrimFunc cannot run one after another; empty if they can."""
    reasons: list[str] = []

    def access(node: Any) -> None:
        buffer = node.source if isinstance(node, TensorLoad) else node.buffer
        if (scope := str(buffer.scope())) not in SCOPES:
            reasons.append(f"share memory ({scope})")

    def call(node: Any) -> None:
        name = op_name(node)
        if any(part in name for part in TOGETHER):
            reasons.append(f"wait for each other ({name})")

    tvm_ffi.structural_walk(func.body, [((TensorLoad, tirx.BufferStore), access),
                                        (ir.Call, call)])  # fmt: skip
    reasons.extend(f"keep {name} from one loop to another" for name in _Kept(func).names)
    return min(reasons, key=lambda r: "share" not in r, default="")


class _Kept:
    """Finds memory of each thread that outlives a loop over threads.

    Such a buffer has elements for each thread, which run one after another here. So all accesses
    must be in one loop over threads, which no other loop repeats while the buffer lives.
    """

    def __init__(self, func: Any) -> None:
        self.names: list[str] = []
        self._loops: list[Any] = []  # around the node that is visited
        self._depths: NodeDict[int] = NodeDict()  # loops around where a buffer is allocated
        self._nests: NodeDict[list[Any]] = NodeDict()  # down to the last one over threads
        accesses = (TensorLoad, tirx.BufferStore)
        rules = [((tirx.For, tirx.While), self._loop), (SBlock, self._block),
                 (tirx.AllocBuffer, self._allocate), (accesses, self._access)]  # fmt: skip
        tvm_ffi.structural_visit(func.body, rules)

    def _loop(self, node: Any, visitor: Any) -> None:
        self._loops.append(node)
        visitor.default_visit(node)
        self._loops.pop()

    def _block(self, node: Any, visitor: Any) -> None:
        for buffer in node.alloc_buffers:
            self._depths[buffer] = len(self._loops)
        visitor.default_visit(node)

    def _allocate(self, node: Any, visitor: Any) -> None:
        self._depths[node.buffer] = len(self._loops)
        visitor.default_visit(node)

    def _access(self, node: Any, visitor: Any) -> None:
        buffer = node.source if isinstance(node, TensorLoad) else node.buffer
        if str(buffer.scope()) == "local":
            last = max((k for k, n in enumerate(self._loops) if _is_thread(n)), default=-1)
            nest = self._loops[self._depths.get(buffer) or 0 : last + 1]
            first = self._nests.get(buffer)
            same = first is None or list(map(id, first)) == list(map(id, nest))
            self._nests[buffer] = nest
            if not same or not all(map(_is_thread, nest)):
                self.names.append(str(buffer.name))
        visitor.default_visit(node)


def _is_thread(loop: Any) -> bool:
    return isinstance(loop, tirx.For) and loop.thread_binding is not None


def _is_beside(indices: Any, shape: Sequence[Any]) -> bool:
    """Whether no element of a buffer is at an index; in two dimensions, [0, 3] of 2 x 3 is [1, 0].

    Where an index is not a number, the others count as inside.
    """
    at, extents = [[int(e) if isinstance(e, tirx.IntImm) else None for e in part]
                   for part in (indices, shape)]  # fmt: skip
    if None in extents or None in at:
        first, extent = (at[0], extents[0]) if at else (None, None)
        return first is not None and extent is not None and not 0 <= first < extent
    place = 0
    for index, extent in zip(at, extents, strict=True):
        place = place * (extent or 0) + (index or 0)
    return not 0 <= place < prod(e or 0 for e in extents)


def _serial(func: Any) -> Any:
    """Return a PrimFunc with its loops over threads in order.

    A store beside a buffer that the PrimFunc allocates is dropped: nothing may read it, and it
    would write to another buffer. MLC-LLM starts the numbers of the best experts with such.
    """
    extents: NodeDict[list[Any]] = NodeDict()

    def allocated(node: Any) -> None:
        for buffer in [node.buffer] if isinstance(node, tirx.AllocBuffer) else node.alloc_buffers:
            extents[buffer] = list(buffer.shape)

    tvm_ffi.structural_walk(func.body, ((SBlock, tirx.AllocBuffer), allocated))

    def loop(node: Any, mutator: Any) -> Any:
        new = mutator.default_mutate(node)
        if node.thread_binding is None:
            return new
        return tirx.For(new.loop_var, new.min, new.extent, tirx.ForKind.SERIAL, new.body,
                        step=new.step)  # fmt: skip

    def store(node: Any, mutator: Any) -> Any:
        shape = extents.get(node.buffer)
        beside = shape is not None and _is_beside(node.indices, shape)
        return tirx.Evaluate(tirx.const(0, "int32")) if beside else node

    rules = [(tirx.For, loop), (tirx.BufferStore, store)]
    return func.with_body(tvm_ffi.structural_mutate(func.body, rules))
