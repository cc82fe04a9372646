"""Drop marks in PrimFuncs that say nothing, and of which TVM's code generation warns.

Before: `T.attr(0, "pragma_scope", "seq")` around the loops of a `te.extern`, as in TVM's lowering
of scatters; after: the loops. TVM prints "Unknown pragma pragma_scope" for each.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx


def without_scopes(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose PrimFuncs have no such marks; `mod` is not modified."""
    changed = {}
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            body = tvm_ffi.structural_mutate(func.body, [(tirx.AttrStmt, _inner)])
            if not body.same_as(func.body):
                changed[gvar] = func.with_body(body)
    if not changed:
        return mod
    out = mod.clone()
    for gvar, func in changed.items():
        out.update_func(gvar, func)
    return out


def _inner(mark: Any, mutator: Any) -> Any:
    mark = mutator.default_mutate(mark)
    return mark.body if mark.attr_key == "pragma_scope" else mark
