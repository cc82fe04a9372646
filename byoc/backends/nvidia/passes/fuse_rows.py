"""Fuse what is computed before a norm, a softmax or a pool into it.

    Before: lv = R.call_tir(cls.add, (x, r));  gv = R.call_tir(cls.layer_norm, (lv, w, b))
    After:  gv = R.call_tir(cls.fused_add_layer_norm, (x, r, w, b))

TVM's FuseOps takes a norm for an operator after which only others can be computed. A kernel of rows
keeps the row in registers, so that what comes before costs nothing. A kernel of windows evaluates
it for each window that has the element: that pays for casts and the like, with which exporters
surround pools of halves, and not for sums of tensors or functions.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx

from .....analysis.blocks.tir import calls, loads, static
from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.call_ops import is_call_tir
from ..schedules.pointwise_kernel import MANY
from ..schedules.program.gpu_program import (
    GpuProgram,
    NoGpuSchedule,
    expanded,
    extents,
    has_symbols,
    has_windows,
    product,
    read_program,
    value_parts,
)
from ..schedules.program.row_space import row_space

#: TVM's pattern kinds.
BROADCAST, REDUCTION, OPAQUE = 1, 3, 8


def fuse_rows(mod: Any) -> Any:
    """Return the module with elementwise PrimFuncs fused into the reductions that read them."""
    kinds = {gvar: row_kind(f) for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    for gvar in _expensive_windows(mod, kinds):
        kinds[gvar] = OPAQUE
    if REDUCTION not in kinds.values() or BROADCAST not in kinds.values():
        return mod
    out = mod.clone()
    for gvar, kind in kinds.items():
        out.update_func(gvar, mod[gvar].with_attr("op_pattern", kind))
    passes = [relax.transform.FuseOps(), relax.transform.FuseTIR()]
    return tvm.transform.Sequential(passes)(out)


def row_kind(func: Any) -> int:
    """Return the pattern kind by which TVM fuses a PrimFunc with what it reads."""
    if bool((func.attrs or {}).get("tirx.is_scheduled", False)):
        return OPAQUE
    try:
        program = _program(func)
        if all(not step.reduced for step in program.steps):
            return BROADCAST if is_elementwise(program) else OPAQUE
        if not _is_pool(program):
            row_space(program)
    except NoGpuSchedule:
        return OPAQUE
    return REDUCTION


def _program(func: Any) -> GpuProgram:
    return read_program(func, True, symbolic=has_symbols(func))


def _is_pool(program: GpuProgram) -> bool:
    """Whether a thread can reduce each element of the result alone: few terms, as of a window."""
    reduced = [s for s in program.steps if s.reduced]
    spatial = [extents(s.spatial) for s in program.steps]
    few = all(product(extents(s.reduced)) <= MANY for s in reduced)
    return len(reduced) == 1 and few and all(e == spatial[0] for e in spatial)


def _overlaps(program: GpuProgram) -> bool:
    return any(has_windows(s, value_parts(u, program.definitions))
               for s in program.steps if s.reduced for u in s.updates)  # fmt: skip


def _expensive_windows(mod: Any, kinds: dict[Any, int]) -> list[Any]:
    """The PrimFuncs over overlapping windows of what a PrimFunc computes at some cost."""
    sources: NodeDict[Any] = NodeDict()
    out: list[Any] = []

    def visit(binding: Any) -> None:
        gvar = callee(getattr(binding, "value", None))
        if gvar is None or gvar not in kinds:
            return
        sources[binding.var] = gvar
        read = [sources.get(v) for v in binding.value.args[1].fields]
        costly = [g for g in read if g is not None and kinds[g] == BROADCAST
                  and not _is_cheap(mod[g])]  # fmt: skip
        if kinds[gvar] == REDUCTION and costly and _overlaps(_program(mod[gvar])):
            out.append(gvar)

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            for block in func.body.blocks:
                for binding in block.bindings:
                    visit(binding)
    return out


def callee(expr: Any) -> Any:
    """The PrimFunc that a ``call_tir`` calls on a tuple of variables; None for all else."""
    if not is_call_tir(expr):
        return None
    return expr.args[0] if isinstance(expr.args[1], relax.Tuple) else None


def _is_cheap(func: Any) -> bool:
    """Whether an elementwise PrimFunc reads one element, and calls no function of it."""
    program = _program(func)
    (update,) = program.steps[0].updates
    parts = value_parts(update, program.definitions)
    return not any(map(calls, parts)) and sum(len(loads(part)) for part in parts) == 1


def is_elementwise(program: GpuProgram) -> bool:
    """Whether every element depends on elements at its own coordinates, or some of them."""
    if len(program.steps) != 1 or len(program.steps[0].updates) != 1:
        return False
    step = program.steps[0]
    (update,) = step.updates
    order = [a.var for a in (*program.outer, *step.axes)]
    if not all(_position(i, order) is not None or static(i) == 0 for i in update.indices):
        return False
    lets, value = expanded(update.value, program.definitions)
    return all(_is_own(e, order) for part in [*(e for _, e in lets), value] for e in loads(part))


def _is_own(expr: Any, order: list[Any]) -> bool:
    places = [_position(i, order) for i in items(expr.indices) if static(i) != 0]
    known = [p for p in places if p is not None]
    return len(known) == len(places) and known == sorted(set(known))


def _position(index: Any, order: list[Any]) -> int | None:
    return next((k for k, var in enumerate(order) if index.same_as(var)), None)
