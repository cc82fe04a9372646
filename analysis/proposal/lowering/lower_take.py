"""Lower `take` without the warning that TVM prints for each one.

In the mode `fast`, which is the default, TVM warns of "segfaults when there are out-of-bounds
indices". opinfo proves that indices are inside, or checks them (`jit.arguments.index_checks`). The
PrimFunc is the one that TVM's rule makes, to the last name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import te, tirx
from tvm.ir import register_op_attr

_OPERATOR = "relax.take"


def take(data: Any, indices: Any, axis: int | None) -> Any:
    """Return the elements of an axis at indices; in a tensor of one axis without `axis`, modulo.

    Args:
        data: A tensor expression.
        indices: A tensor expression of integers, of any rank.
        axis: The axis, or None for the only one.
    """
    at = (axis or 0) % len(data.shape)
    rank = len(indices.shape)

    def element(*where: Any) -> Any:
        index = indices(*where[at : at + rank])
        index = tirx.indexmod(index, data.shape[0]) if axis is None else index
        return data(*where[:at], index, *where[at + rank :])

    shape = [*data.shape[:at], *indices.shape, *data.shape[at + 1 :]]
    names = [f"ax{k}" for k in range(len(shape))]
    return te.compute(shape, element, name="T_take", tag="injective", varargs_names=names)


def quiet(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return TVM's rule, but for the mode that it warns of."""

    def lower(builder: Any, call: Any) -> Any:
        data, indices = call.args
        if str(call.attrs.mode) != "fast" or isinstance(indices.ty, tvm.ir.PrimType):
            return rule(builder, call)
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        return builder.call_te(take, data, indices, axis)

    return lower


def register() -> None:
    """Replace TVM's rule, which all its passes use."""
    rule = tvm.ir.Op.get(_OPERATOR).get_attr("FLegalize")
    register_op_attr(_OPERATOR, "FLegalize", quiet(rule), level=11)
