"""Allocate the workspaces of a kernel only when it runs.

TVM's `StorageRewrite` moves every allocation to the start of a function, even out of branches. A
merged kernel would allocate the workspaces of all variants, whichever runs.

Before: t = alloc_buffer((n * 128,)); body
After:  p = TVMBackendAllocWorkspace(n * 512); t = decl_buffer((n * 128,), data=p); body; free p
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

#: TVM's passes that lower blocks; they determine where each buffer is allocated and its size.
_PLACED = (
    s_tir.transform.CanonicalizeLoop,
    s_tir.transform.LowerInitBlock,
    s_tir.transform.PlanAndUpdateBufferAllocationLocation,
    s_tir.transform.ConvertBlocksToOpaque,
    s_tir.transform.CompactBufferAllocation,
    s_tir.transform.LowerMatchBuffer,
    s_tir.transform.LowerOpaqueBlock,
)
_CPU, _FLOAT = 1, 2
#: Up to this many bytes TVM allocates on the stack, which is free.
STACK = 1024


def with_lazy_workspaces(func: Any) -> Any:
    """Allocate large and symbolic workspaces of a CPU function by explicit statements.

    Functions without such workspaces and functions for GPUs are returned unchanged.
    """
    if not _needed(func):
        return func
    mod = tvm.IRModule({"kernel": func.with_attr("global_symbol", "kernel")})
    for make in _PLACED:
        mod = make()(mod)
    body = _explicit(mod["kernel"].body)
    return tirx.PrimFunc(mod["kernel"].params, body, func.ret_type, func.attrs)


def _needed(func: Any) -> bool:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(func.body, nodes.append, order="post")
    threads = (s for s in nodes if isinstance(s, tirx.For))
    if any(int(s.kind) == tirx.ForKind.THREAD_BINDING for s in threads):
        return False
    blocks = [b for s in nodes if isinstance(s, s_tir.SBlock) for b in s.alloc_buffers]
    plain = [s.buffer for s in nodes if isinstance(s, tirx.AllocBuffer)]
    return any(map(_large, [*blocks, *plain]))


def _large(buffer: Any) -> bool:
    """Return whether a buffer does not go on the stack."""
    if buffer.ty.storage_scope not in ("", "global"):
        return False
    if any(not isinstance(e, tirx.IntImm) for e in buffer.ty.shape):
        return True
    return math.prod(int(e.value) for e in buffer.ty.shape) * itemsize(buffer) > STACK


def itemsize(buffer: Any) -> int:
    """Return the size of an element in bytes."""
    return (int(tvm.DataType(str(buffer.ty.dtype)).bits) + 7) // 8


def _explicit(body: Any) -> Any:
    """Replace allocations outside loops by calls of the workspace allocator."""
    out: list[Any] = []
    pointers: list[Any] = []
    for stmt in _flat(body):
        if isinstance(stmt, tirx.AllocBuffer) and _large(stmt.buffer):
            pointers.append(_pointer(stmt.buffer))
            out += _allocated(stmt.buffer, pointers[-1])
        else:
            out.append(stmt)
    out += map(_freed, reversed(pointers))
    return tirx.SeqStmt(out) if len(out) > 1 else out[0]


def _flat(stmt: Any) -> list[Any]:
    return (
        [x for part in stmt.seq for x in _flat(part)] if isinstance(stmt, tirx.SeqStmt) else [stmt]
    )


def with_workspaces(buffers: Sequence[Any], body: Sequence[Any]) -> list[Any]:
    """Return the statements with exclusive memory for these buffers.

    `StorageRewrite` lets a result reuse an operand's buffer after the last statement that reads it.
    That is wrong for a schedule that computes elements twice and so reads the operand again.
    """
    pointers = [_pointer(b) for b in buffers]
    before = [s for b, p in zip(buffers, pointers, strict=True) for s in _allocated(b, p)]
    return [*before, *body, *map(_freed, reversed(pointers))]


def _pointer(buffer: Any) -> Any:
    return tirx.Var(f"{buffer.name}_data", tvm.ir.PointerType(buffer.ty.dtype, "global"))


def _freed(pointer: Any) -> Any:
    return tirx.Evaluate(tirx.op.TVMBackendFreeWorkspace(_CPU, 0, pointer))


def _allocated(buffer: Any, pointer: Any) -> list[Any]:
    """Return statements that allocate memory, check for failure, and declare the buffer."""
    count: Any = tirx.IntImm("int64", itemsize(buffer))
    for expr in buffer.ty.shape:
        count = count * expr.astype("int64")
    call = tirx.op.TVMBackendAllocWorkspace(_CPU, 0, count.astype("uint64"), _FLOAT, 32)
    # the dtype of the allocation is a hint that CPUs ignore
    typed = tvm.ir.Call(call.op, call.args, ret_ty=pointer.ty)
    failed = tirx.Evaluate(tirx.op.tvm_throw_last_error())
    return [
        tirx.Bind(pointer, typed),
        tirx.IfThenElse(tirx.isnullptr(pointer), failed, None),
        tirx.DeclBuffer(buffer, data=pointer),
    ]
