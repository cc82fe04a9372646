"""Names that CUDA accepts, in place of a model's own.

Before: def f(p: T.Buffer((4,), "float32"), …)       p is called gpu_0/data_0
After:  def f(gpu_0_data_0: T.Buffer((4,), "float32"), …)
"""

from __future__ import annotations

import re
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis.lifting.tir.node import NodeDict, items, substitute

_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def with_valid_names(func: Any) -> Any:
    """Return the PrimFunc with identifiers for names; ``func`` itself if all are."""
    renamed: NodeDict[Any] = NodeDict()

    def note(var: Any) -> None:
        if not _VALID.fullmatch(var.name) and var not in renamed:
            renamed[var] = _renamed(var)

    for param in items(func.params):
        note(param)
    tvm_ffi.structural_walk(func.body, (tvm.ir.Var, note))
    if not len(renamed.items()):
        return func
    params = [renamed[p] if p in renamed else p for p in items(func.params)]
    return tirx.PrimFunc(params, substitute(func.body, renamed), func.ret_type, func.attrs)


def _renamed(var: Any) -> Any:
    name = re.sub(r"\W", "_", var.name, flags=re.ASCII)
    name = name if _VALID.fullmatch(name) else f"v_{name}"
    if is_buffer_var(var):
        return tvm.ir.Var(name, var.ty)
    return tirx.Var(name, str(var.ty.dtype))
