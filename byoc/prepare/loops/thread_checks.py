"""Check what is in the kernels of a GPU, and where their threads may meet."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from ....analysis.support.ir.call_ops import op_name
from ....analysis.support.tvm_compat import TensorLoad
from .agreed_values import LOCAL, REDUCTION

SYNC, INVARIANT = "tirx.tvm_storage_sync", "tirx.tvm_thread_invariant"
ALL_REDUCE = "tirx.tvm_thread_allreduce"
#: The memory of threads that a CPU has, too.
SHARED = ("shared", "shared.dyn")
STATEMENTS = ("AllocBuffer", "AssertStmt", "AttrStmt", "Bind", "BufferStore", "Evaluate", "For",
              "IfThenElse", "SeqStmt", "While")  # fmt: skip
HINTS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")
#: What calls have in their names that need threads, pointers, or functions of a GPU.
FOREIGN = ("shuffle", "ptx_", "mma", "warp_", "address", "access_ptr", "extern", "packed", "cuda")
#: The greatest ``TCallEffectKind`` of calls that only read.
READS = 2


@tvm_ffi.register_error
class NotLockstep(ValueError):
    """Why the threads of a kernel do not run statement by statement."""


def check_kernel(body: Any) -> None:
    """Check the statements and calls of a kernel.

    Raises:
        NotLockstep: A statement or a call that is not understood.
    """
    tvm_ffi.structural_walk(body, [(ir.Call, _check_call), (tirx.Stmt, _check_statement)])


def _check_call(call: Any) -> None:
    if (name := op_name(call)) in (SYNC, INVARIANT, ALL_REDUCE):
        return
    effect = call.op.get_attr("TCallEffectKind") if isinstance(call.op, ir.Op) else None
    if effect is None or int(effect) > READS or any(part in name for part in FOREIGN):
        raise NotLockstep(f"call {name.rpartition('.')[2] or 'a function'}")


def _check_statement(stmt: Any) -> None:
    if (kind := type(stmt).__name__) not in STATEMENTS:
        raise NotLockstep(f"have a statement {kind}")


def scope_of(buffer: Any) -> str:
    """Return the scope of a buffer."""
    return str(buffer.scope())


def attributed(stmt: Any) -> Any:
    """Return what is under a loop over threads or a hint to a code generator."""
    if (key := str(stmt.attr_key)) != "thread_extent" and key not in HINTS:
        raise NotLockstep(f"have an attribute {key}")
    return stmt.body


def allocated(stmt: Any) -> list[Any]:
    """Return the buffers that a statement allocates."""
    own: list[Any] = []
    tvm_ffi.structural_walk(stmt, (tirx.AllocBuffer, lambda n: own.append(n.buffer)))
    return own


def stored(stmt: Any) -> list[Any]:
    """Return the buffers in which a statement stores."""
    buffers: list[Any] = []
    tvm_ffi.structural_walk(stmt, (tirx.BufferStore, lambda n: buffers.append(n.buffer)))
    return buffers


def meets(stmt: Any) -> bool:
    """Whether a statement has a barrier, or a reduction over threads."""
    found: list[bool] = []
    tvm_ffi.structural_walk(stmt, [
        (ir.Call, lambda n: found.append(op_name(n) in (SYNC, ALL_REDUCE))),
        (tirx.AttrStmt, lambda n: found.append(str(n.attr_key) in ("thread_extent", REDUCTION))),
    ])  # fmt: skip
    return any(found)


def runs_alone(stmt: Any) -> bool:
    """Whether each thread may execute a whole statement before the next one starts.

    TVM puts barriers between stores to shared memory and loads of it; and the threads of a warp
    load together before they store.
    """
    shared = any(scope_of(b) not in (LOCAL, "global") for b in allocated(stmt))
    return not (shared or meets(stmt) or exchanges(stmt))


def exchanges(stmt: Any) -> bool:
    """Whether a statement loads from a buffer in which it stores, and which threads share."""
    sources: list[Any] = []
    tvm_ffi.structural_walk(stmt, (TensorLoad, lambda n: sources.append(n.source)))
    written = [b for b in stored(stmt) if scope_of(b) != LOCAL]
    return any(b.same_as(s) for b in sources for s in written)
