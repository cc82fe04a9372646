"""Functions that a module calls but lacks, and PrimFuncs that nothing calls any more."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def check_defined(mod: Any, what: str) -> None:
    """Raises ``TypeError`` unless this is an IRModule, ``ValueError`` if a function is missing."""
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"{what}: expected a tvm.IRModule, got {type(mod).__name__}")
    missing = sorted(_called(mod) - {g.name_hint for g, _ in mod.functions_items()})
    if missing:
        raise ValueError(f"{what}: the module calls {', '.join(missing)}, which it does not define")


def without_unused(new: Any, old: Any) -> Any:
    """Drop private PrimFuncs that were called in the old module and are not in the new one."""
    before, after = _called(old), _called(new)
    keep = {}
    for gvar, func in new.functions_items():
        unused = isinstance(func, tirx.PrimFunc) and gvar.name_hint in before - after
        if not unused or (func.attrs or {}).get("global_symbol"):
            keep[gvar] = func
    return tvm.IRModule(keep, attrs=new.attrs, global_infos=new.global_infos)


def _called(mod: Any) -> set[str]:
    """The names of functions that other functions of the module refer to."""
    names: set[str] = set()
    for gvar, func in mod.functions_items():
        callees: set[str] = set()
        tvm_ffi.structural_walk(func, (tvm.ir.GlobalVar, lambda g, to=callees: to.add(g.name_hint)))
        names |= callees - {gvar.name_hint}
    return names
