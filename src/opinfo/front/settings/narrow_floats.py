"""Numbers of float8 on CPUs, where TVM's code for them is wrong."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax

from ...byoc.prepare.constants.narrow_casts import is_narrow


def refuse_narrow_floats(mod: Any) -> None:
    """Raise `ValueError` if a function of a module computes or is given numbers of float8.

    TVM's code for CPUs converts 0 and subnormals to other numbers. Constants that are only cast are
    folded exactly, and may stay.
    """
    for gvar, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        found: list[Any] = [p for p in func.params if is_narrow(p)]

        def visit(binding: Any, found: list[Any] = found) -> None:
            if is_narrow(binding.var):
                found.append(binding.var)

        tvm_ffi.structural_walk(func, (relax.VarBinding, visit))
        if found:
            raise ValueError(
                f"compile: {found[0].name} of {gvar.name_hint} is {found[0].ty.dtype}, which TVM's "
                "code for CPUs converts wrongly; expected another dtype, or a GPU as the target"
            )
