"""Calls whose operator TVM's own inference rejects: files say types, and passes believe them."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from .error import one_line


def check_calls(mod: Any) -> None:
    """Infer the type of each call of an operator again.

    A module that a parser or an importer has built went through this; one that was deserialised
    did not, and what is out of range in an attribute would be found by whichever pass reads it.
    Raises ``ValueError`` that names the operator.
    """
    builder = relax.BlockBuilder(mod)

    def check(e: Any) -> None:
        if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.Op):
            try:
                builder.normalize(relax.Call(e.op, e.args, e.attrs, e.ty_args))
            except Exception as error:  # of any type: TVM's checks
                raise ValueError(f"a call of {e.op.name}: {one_line(error)}") from error

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, check)
