"""Launch kernels before the previous one is complete (programmatic dependent launch).

Before: for b in T.thread_binding(…, "blockIdx.x"): for t in T.thread_binding(…): y[…] = f(x[…])
After:  for b in …: for t in …: T.ptx.griddepcontrol("wait"); y[…] = f(x[…])

A kernel waits for the previous one before it reads or writes any tensor. What is gained is the time
of its launch: its threads are there when the previous kernel ends. That one need not know.

Parameters of such a kernel are not ``__restrict__``: the compiler would take tensors that it only
reads for constant while the kernel runs, and read them past the wait (``ld.global.nc``), when
the previous kernel may still write them. So it is for small kernels, whose threads read first.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.script import tirx as T

from .....analysis.blocks.tir import static
from .....analysis.lifting.tir.node import items

#: What TVM launches a kernel by, and the pipeline of `without_restrict`.
LAUNCH, EARLY = "tirx.kernel_launch_params", "tirx.use_programtic_dependent_launch"
PIPELINE = "opinfo_cuda"
#: A kernel that moves more bytes runs longer than a launch takes.
MOST = 8 << 20


class NotEarly(Exception):
    """A kernel is launched as all are; the message is the reason."""


def with_early_launch(func: Any, target: Any) -> Any:
    """Return a scheduled PrimFunc that is launched early, or unchanged if it is large."""
    try:
        _check(func, target)
        body = _waiting(func.body)
    except NotEarly:
        return func
    return func.with_body(body).with_attr(LAUNCH, [EARLY])


def _check(func: Any, target: Any) -> None:
    arch = str(target.attrs.get("arch", ""))
    if not arch.startswith("sm_") or int("".join(filter(str.isdigit, arch))) < 90:
        raise NotEarly(f"{arch} has no such launches")
    total = 0
    for param in items(func.params):
        shape = getattr(param.ty, "shape", None)
        if shape is None:
            raise NotEarly(f"{param.name} is a number")
        extents = [e for e in map(static, items(shape)) if e is not None]
        if len(extents) < len(shape):
            raise NotEarly(f"{param.name} has a shape that is known at run time")
        total += prod(extents) * tvm_ffi.dtype(param.ty.dtype).bits // 8
    if total > MOST:
        raise NotEarly(f"it moves {total} bytes")


def _waiting(stmt: Any) -> Any:
    """A statement outside of kernels, whose kernels wait."""
    if isinstance(stmt, s_tir.SBlockRealize) and not items(stmt.iter_values):
        return s_tir.SBlockRealize([], stmt.predicate, _block(stmt.block))
    if isinstance(stmt, tirx.SeqStmt):
        return tirx.SeqStmt([_waiting(s) for s in items(stmt.seq)])
    if _is_bound(stmt):
        return _inside(stmt)
    raise NotEarly(f"{type(stmt).__name__} is no kernel")


def _block(block: Any) -> Any:
    return s_tir.SBlock(block.iter_vars, block.reads, block.writes, block.name_hint,
                        _waiting(block.body), block.init, block.alloc_buffers,
                        block.match_buffers, block.annotations)  # fmt: skip


def _inside(stmt: Any) -> Any:
    """A statement that threads begin with, after they waited."""
    if _is_bound(stmt):
        return tirx.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, _inside(stmt.body),
                        stmt.thread_binding, stmt.annotations)  # fmt: skip
    if isinstance(stmt, tirx.SeqStmt):
        first, *others = items(stmt.seq)
        return tirx.SeqStmt([_inside(first), *others])
    return tirx.SeqStmt([tirx.Evaluate(T.ptx.griddepcontrol.wait()), stmt])


def _is_bound(stmt: Any) -> bool:
    return isinstance(stmt, tirx.For) and stmt.thread_binding is not None


def _without_restrict(func: Any, *_: Any) -> Any:
    tags = [str(tag) for tag in (func.attrs or {}).get(LAUNCH, ())]
    return func.without_attr("tirx.noalias") if EARLY in tags else func


#: To the compiler, parameters of kernels that are launched early may be one tensor.
without_restrict = tirx.transform.prim_func_pass(_without_restrict, opt_level=0)


def pipeline(**options: Any) -> Any:
    """TVM's passes over PrimFuncs, with `without_restrict` for kernels."""
    lower, host, device = tirx.get_tir_pipeline("s_tir", **options)
    return lower, host, lambda: tvm.transform.Sequential([device(), without_restrict])


tirx.register_tir_pipeline(PIPELINE, pipeline)
