"""Lower `scatter_elements` of fewer indices than data along axes that TVM's rule does not count.

TVM's rule finds an element from its position among all indices: along axes other than the first,
its own and the next one, it takes the indices for as many as the data. It wrote elsewhere.

    Before:  R.scatter_elements(x, i, u, axis=2)   of (2, 3, 4) and (2, 2, 4)
    After:   R.scatter_nd(x, points(i), u)         with points(i)[a, b, c] = (a, b, i[a, b, c])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, tirx
from tvm.ir import register_op_attr

from ...support.ir.tensor_dims import tensor_dims
from ...support.tvm_compat import sym

_OPERATOR = "relax.scatter_elements"


def scatters_in_order(data: list[Any], indices: list[Any], axis: int) -> bool:
    """Return whether TVM's rule writes where the operator does.

    Args:
        data: The sizes of the tensor that is written to.
        indices: The sizes of the indices.
        axis: The axis that is indexed, not negative.
    """
    counted = (0, axis, axis + 1)
    return all(k in counted or sym.Analyzer().can_prove_equal(a, b)
               for k, (a, b) in enumerate(zip(data, indices, strict=True)))  # fmt: skip


def by_points(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return TVM's rule, but for indices that are written at points; those of means stay."""
    points_rule = tvm.ir.Op.get("relax.scatter_nd").get_attr("FLegalize")

    def lower(builder: Any, call: Any) -> Any:
        call = _with_wide_indices(builder, call)
        data, indices, updates = call.args
        dims, own = tensor_dims(data), tensor_dims(indices)
        reduction = str(call.attrs.reduction)
        if dims is None or own is None or reduction == "mean":
            return rule(builder, call)
        axis = int(call.attrs.axis) % len(dims)
        if scatters_in_order(dims, own, axis):
            return rule(builder, call)
        points = builder.emit_te(_points, indices, dims[axis], axis, primfunc_name_hint="points")
        written = relax.op.scatter_nd(data, points, updates, reduction)
        return points_rule(builder, builder.normalize(written))

    return lower


def _with_wide_indices(builder: Any, call: Any) -> Any:
    """Return a call with indices that have the sizes of all axes, which those of 8 bits may not."""
    data, indices, updates = call.args
    if str(indices.ty.dtype) in ("int32", "int64"):
        return call
    wide = builder.emit_te(tvm.topi.cast, indices, "int64", primfunc_name_hint="wide")
    return builder.normalize(
        relax.Call(call.op, [data, wide, updates], call.attrs, call.ty_args, call.span)
    )


def _points(indices: Any, size: Any, axis: int) -> Any:
    """Return the coordinates of each index as a last axis; elements below 0 count from the end."""
    dtype, rank = str(indices.dtype), len(indices.shape)

    def coordinate(*at: Any) -> Any:
        *place, k = at
        index = indices(*place)
        if not dtype.startswith("uint"):
            zero = tirx.IntImm(dtype, 0)
            index = tirx.Select(index < zero, index + tirx.Cast(dtype, size), index)
        value = index
        for other in (other for other in range(rank) if other != axis):
            value = tirx.Select(k == other, tirx.Cast(dtype, place[other]), value)
        return value

    return te.compute((*indices.shape, rank), coordinate, name="points")


def register() -> None:
    """Replace TVM's rule, which all its passes use; elsewhere it does what it did."""
    rule = tvm.ir.Op.get(_OPERATOR).get_attr("FLegalize")
    register_op_attr(_OPERATOR, "FLegalize", by_points(rule), level=11)
