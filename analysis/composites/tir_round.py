"""``tirx.round`` as an operator of Relax, whose own `relax.round` is ``tirx.nearbyint``.

The two may differ on ties, which targets round in their own way. It is for definitions of
composites; recognisers do not propose it.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, relax, te, tirx
from tvm.ir import Op, register_op_attr

from ..support.ir.constructors import register_constructor

NAME = "relax.nn.tir_round"


def tir_round(data: Any) -> Any:
    """Return a call of the operator: the nearest whole numbers.

    Args:
        data: A Relax expression, of floats of any shape.
    """
    return relax.Call(Op.get(NAME), [data], ir.make_node("ir.DictAttrs"))


def _rounded(data: Any) -> Any:
    return te.compute(data.shape, lambda *i: tirx.round(data(*i)), name="round")


register_constructor(NAME, tir_round)
register_op_attr(NAME, "FInferType", lambda call, builder: call.args[0].ty)
register_op_attr(NAME, "FLegalize", lambda builder, call: builder.call_te(_rounded, call.args[0]))
register_op_attr(NAME, "FPurity", True)
