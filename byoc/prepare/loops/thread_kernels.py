"""Turn the kernels of a PrimFunc, which a GPU runs in blocks of threads, into loops of a CPU.

    Before: blockIdx.x = launch_thread(4); threadIdx.x = launch_thread(8); …
    After:  for block in range(4): …, in which each statement runs for 8 threads

TVM's own passes for GPUs lower the PrimFunc first: they say what a loop over threads inside
another means, and where memory is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from ....analysis.lifting.tir.node import NodeDict, substitute
from ....analysis.support.tvm_compat import SBlock, SBlockRealize, StmtSimplify
from .lockstep import in_lockstep
from .thread_checks import NotLockstep

#: The slowest first.
BLOCKS = ("blockIdx.z", "blockIdx.y", "blockIdx.x")
THREADS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


@dataclass(frozen=True)
class _Launch:
    """A loop over threads or blocks: its tag, variable and extent."""

    tag: str
    var: Any
    extent: Any


def without_threads(func: Any) -> Any:
    """Return a PrimFunc with loops instead of blocks of threads.

    Raises:
        NotLockstep: The threads of a kernel do not run statement by statement.
    """
    lowered = _lowered(func)

    def attribute(node: Any, mutator: Any) -> Any:
        if (key := str(node.attr_key)) == "virtual_thread":
            raise NotLockstep("have virtual threads")
        return _kernel(node) if key == "thread_extent" else mutator.default_mutate(node)

    body = tvm_ffi.structural_mutate(lowered.body, (tirx.AttrStmt, attribute))
    root = SBlock([], [], [], "root", body)  # where TVM's passes over Relax modules expect it
    return lowered.with_body(SBlockRealize([], tirx.const(True, "bool"), root))


def _lowered(func: Any) -> Any:
    """Return a PrimFunc without blocks, as TVM lowers it for a GPU."""
    passes = s_tir.transform
    steps = [
        passes.CanonicalizeLoop(), passes.LowerCrossThreadReduction(), passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(), passes.ConvertBlocksToOpaque(),
        passes.LiftThreadBinding(), passes.ManifestSharedMemoryLocalStage(),
        passes.CompactBufferAllocation(), passes.UnifyThreadBinding(), passes.LowerMatchBuffer(),
        StmtSimplify(), passes.LowerOpaqueBlock(), StmtSimplify(),
    ]  # fmt: skip
    try:
        return tvm.ir.transform.Sequential(steps)(tvm.IRModule({"main": func}))["main"]
    except Exception as error:  # TVM's errors have no common type
        reason = str(error).strip().rpartition("\n")[2]
        raise NotLockstep(f"cannot be lowered by TVM ({reason})") from error


def _kernel(stmt: Any) -> Any:
    """Return the loops of a kernel, whose first loop over threads or blocks a statement is."""
    launches = _launches(stmt)
    blocks = [_of_tag(launches, tag) for tag in BLOCKS]
    threads = [_of_tag(launches, tag) for tag in THREADS]
    if other := next((x.tag for x in launches if x.tag not in BLOCKS + THREADS), None):
        raise NotLockstep(f"have loops over {other}")
    defined = _defined(stmt)
    for launch in filter(None, blocks + threads):
        if any(v.same_as(d) for v in _variables(launch.extent) for d in defined):
            raise NotLockstep(f"compute how many {launch.tag} has")
    extents = [(launch.var, launch.extent) for launch in filter(None, threads)]
    body = in_lockstep(_one_variable(stmt, launches), extents)
    for launch in filter(None, reversed(blocks)):
        zero = tirx.const(0, str(launch.var.ty.dtype))
        body = tirx.For(launch.var, zero, launch.extent, tirx.ForKind.SERIAL, body)
    return body


def _launches(stmt: Any) -> list[_Launch]:
    found: list[_Launch] = []

    def attribute(node: Any) -> None:
        if str(node.attr_key) in ("thread_extent", "virtual_thread"):
            found.append(_Launch(str(node.node.thread_tag), node.node.var, node.value))

    tvm_ffi.structural_walk(stmt, (tirx.AttrStmt, attribute), order="pre")
    return found


def _of_tag(launches: Sequence[_Launch], tag: str) -> _Launch | None:
    same = [x for x in launches if x.tag == tag]
    if any(not tvm_ffi.structural_equal(x.extent, same[0].extent) for x in same[1:]):
        raise NotLockstep(f"have {' and '.join(str(x.extent) for x in same)} of {tag} at once")
    return same[0] if same else None


def _one_variable(stmt: Any, launches: Sequence[_Launch]) -> Any:
    """Return a statement in which a tag has the variable of its first loop."""
    first: dict[str, Any] = {}
    names: NodeDict[Any] = NodeDict()
    for launch in launches:
        names[launch.var] = first.setdefault(launch.tag, launch.var)
    return substitute(stmt, names)


def _defined(stmt: Any) -> list[Any]:
    """The variables that a statement defines."""
    found: list[Any] = []
    tvm_ffi.structural_walk(stmt, [(tirx.Bind, lambda n: found.append(n.var)),
                                   (tirx.For, lambda n: found.append(n.loop_var))])  # fmt: skip
    return found


def _variables(expr: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (ir.Var, found.append))
    return found
