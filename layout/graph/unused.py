"""What the functions of a module call: what is missing, and what nothing calls any more."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def check_defined(mod: Any, what: str) -> None:
    """Raises ``TypeError`` for what is no IRModule, ``ValueError`` where a function is missing."""
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"{what}: expected a tvm.IRModule, got {type(mod).__name__}")
    missing = sorted(_called(mod) - {g.name_hint for g, _ in mod.functions_items()})
    if missing:
        raise ValueError(f"{what}: the module calls {', '.join(missing)}, which it does not define")


def without_unused(new: Any, old: Any) -> Any:
    """Drop the private PrimFuncs that nothing calls any more and that something called before."""
    before, after = _called(old), _called(new)
    keep = {}
    for gvar, func in new.functions_items():
        gone = isinstance(func, tirx.PrimFunc) and gvar.name_hint in before - after
        if not gone or (func.attrs or {}).get("global_symbol"):
            keep[gvar] = func
    return tvm.IRModule(keep, attrs=new.attrs, global_infos=new.global_infos)


def _called(mod: Any) -> set[str]:
    """Functions of the module that another one refers to."""
    names: set[str] = set()
    for gvar, f in mod.functions_items():
        found: set[str] = set()
        tvm_ffi.structural_walk(f, (tvm.ir.GlobalVar, lambda g, to=found: to.add(g.name_hint)))
        names |= found - {gvar.name_hint}
    return names
