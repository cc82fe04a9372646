"""Check calls with TVM's type inference, because passes trust the types in a file."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from .error import one_line


def check_calls(mod: Any) -> None:
    """Repeat the type inference of each operator call.

    Parsers and importers infer types, but deserialisation does not. Without this check, an invalid
    attribute would only surface in whichever pass reads it.

    Raises:
        ValueError: A call is rejected; the message names the operator.
    """
    builder = relax.BlockBuilder(mod)

    def check(expr: Any) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            try:
                builder.normalize(relax.Call(expr.op, expr.args, expr.attrs, expr.ty_args))
            except Exception as error:  # TVM's checks raise various types
                raise ValueError(f"a call of {expr.op.name}: {one_line(error)}") from error

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, check)
