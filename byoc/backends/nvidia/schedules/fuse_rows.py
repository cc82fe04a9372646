"""Fuse what is computed before a norm or a softmax into it.

    Before: lv = R.call_tir(cls.add, (x, r));  gv = R.call_tir(cls.layer_norm, (lv, w, b))
    After:  gv = R.call_tir(cls.fused_add_layer_norm, (x, r, w, b))

TVM's FuseOps takes a norm for an operator after which only others can be computed. A kernel of rows
keeps the row in registers, so that what comes before costs nothing.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx

from .....analysis.blocks.tir import loads, static
from .....analysis.lifting.tir.node import items
from .gpu_program import GpuProgram, NoGpuSchedule, expanded, read_program
from .row_space import row_space

#: TVM's pattern kinds.
BROADCAST, REDUCTION, OPAQUE = 1, 3, 8


def fuse_rows(mod: Any) -> Any:
    """Return the module with elementwise PrimFuncs fused into the row PrimFuncs that read them."""
    kinds = {gvar: _kind(f) for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    if REDUCTION not in kinds.values() or BROADCAST not in kinds.values():
        return mod
    out = mod.clone()
    for gvar, kind in kinds.items():
        out.update_func(gvar, mod[gvar].with_attr("op_pattern", kind))
    passes = [relax.transform.FuseOps(), relax.transform.FuseTIR()]
    return tvm.transform.Sequential(passes)(out)


def _kind(func: Any) -> int:
    if bool((func.attrs or {}).get("tirx.is_scheduled", False)):
        return OPAQUE
    try:
        program = read_program(func, True)
        if all(not step.reduced for step in program.steps):
            return BROADCAST if _is_elementwise(program) else OPAQUE
        row_space(program)
    except NoGpuSchedule:
        return OPAQUE
    return REDUCTION


def _is_elementwise(program: GpuProgram) -> bool:
    """Whether every element depends on elements at its own coordinates, or some of them."""
    if len(program.steps) != 1 or len(program.steps[0].updates) != 1:
        return False
    step = program.steps[0]
    (update,) = step.updates
    order = [a.var for a in step.axes]
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
