"""PrimFuncs that nothing calls any more."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ...analysis.lifting.tir.node import NodeDict


def without_unused(new: Any, old: Any) -> Any:
    """Drop private PrimFuncs that were called in the old module and are not in the new one."""
    called = Called()
    unused = called.in_module(old) - called.in_module(new)
    keep = {}
    for gvar, func in new.functions_items():
        private = isinstance(func, tirx.PrimFunc) and not (func.attrs or {}).get("global_symbol")
        if not (private and gvar.name_hint in unused):
            keep[gvar] = func
    return tvm.IRModule(keep, attrs=new.attrs, global_infos=new.global_infos)


class Called:
    """Collects the names of called functions; functions that modules share are walked once."""

    def __init__(self) -> None:
        self.callees = NodeDict[set[str]]()

    def in_module(self, mod: Any) -> set[str]:
        """Return the names of functions that other functions of the module refer to."""
        items = mod.functions_items()
        return set[str]().union(*(self.by(func) - {gvar.name_hint} for gvar, func in items))

    def by(self, func: Any) -> set[str]:
        """Return the names that a function refers to."""
        names = self.callees.get(func)
        if names is None:
            names = self.callees[func] = set()
            tvm_ffi.structural_walk(func, (tvm.ir.GlobalVar, lambda g: names.add(g.name_hint)))
        return names
