"""Register operators that lower to one PrimFunc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.ir import register_op_attr

from ..support.ir.constructors import register_constructor


def register_operator(
    name: str,
    constructor: Callable[..., Any],
    infer: Callable[[Any, Any], Any],
    kernel_of: Callable[[Any], Callable[..., Any]],
) -> None:
    """Register an operator with TVM; more than once does no harm.

    Args:
        name: Its name, ``relax.nn.<constructor>``. It is not set on `tvm.relax.op`, which is TVM's.
        constructor: Returns a call of the operator.
        infer: Returns the type of a call.
        kernel_of: Returns for a call the function of TE that it lowers to.
    """
    short = name.removeprefix("relax.nn.")
    if not register_constructor(name, constructor):
        return

    def legalised(builder: Any, call: Any) -> Any:
        return builder.call_te(kernel_of(call), *call.args, primfunc_name_hint=short)

    register_op_attr(name, "FInferType", infer)
    register_op_attr(name, "FLegalize", legalised)
    register_op_attr(name, "FPurity", True)
