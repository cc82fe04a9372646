"""Sort numbers in a dtype that TVM's sort takes.

Before: y = R.sort(x)                                 x of bfloat16
After:  y = R.astype(R.sort(R.astype(x, "float32")), "bfloat16")

TVM reads bfloat16 as other numbers, and fails at a call with integers of other widths. A wider
dtype has all numbers of a narrow one, in the same order. Numbers of uint64 are in the order of
int64 once their highest bit is flipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import TupleType

from ...support.ir.call_ops import op_name
from ...support.ir.rewrite_functions import rewrite_functions

_NARROW = ("bool", "int8", "uint8", "int16", "uint16")
#: The dtypes in which numbers are sorted, by those that TVM's sort does not take.
_WIDER = {"bfloat16": "float32", **dict.fromkeys(_NARROW, "int32"),
          "uint32": "int64", "uint64": "int64"}  # fmt: skip
_ORDERS = frozenset(f"relax.{n}" for n in ("argsort", "sort", "topk", "median"))
#: What `relax.topk` takes as well.
_BYTES = ("int8", "uint8")
_HIGHEST_BIT = np.int64(np.iinfo("int64").min)


def widen_orders(mod: Any) -> Any:
    """Return the module with sorts that TVM computes; the same one if it has no others."""
    if not any(_has_narrow_order(f) for _, f in mod.functions_items()):
        return mod
    return rewrite_functions(mod, _Widened(mod))


def _has_narrow_order(func: Any) -> bool:
    if not isinstance(func, relax.Function):
        return False
    found: list[Any] = []
    relax.analysis.post_order_visit(func, lambda e: found.append(e) if _wider(e) else None)
    return bool(found)


def _wider(expr: Any) -> str | None:
    """Return the dtype in which a call must sort; None if TVM sorts it, or for other nodes."""
    name = op_name(expr)
    if name not in _ORDERS:
        return None
    dtype = str(expr.args[0].ty.dtype)
    return None if name == "relax.topk" and dtype in _BYTES else _WIDER.get(dtype)


@relax.expr_functor.mutator
class _Widened(relax.PyExprMutator):  # type: ignore[misc]
    """Sorts numbers of a wider dtype, and casts the values of the result."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        wide = _wider(call)
        if wide is None:
            return call
        data, dtype = call.args[0], str(call.args[0].ty.dtype)
        emit = self.builder_.emit
        widened = emit(relax.op.astype(data, wide))
        if dtype == "uint64":
            widened = emit(_flipped(widened))
        args = [widened, *call.args[1:]]
        result = emit(relax.Call(call.op, args, call.attrs, call.ty_args, call.span))

        def restored(value: Any) -> Any:
            value = emit(_flipped(value)) if dtype == "uint64" else value
            return relax.op.astype(value, dtype)

        if not isinstance(result.ty, TupleType):
            positions = op_name(call) == "relax.argsort" or (
                op_name(call) == "relax.topk" and call.attrs.ret_type == "indices"
            )
            return result if positions else restored(result)
        values, places = (emit(relax.TupleGetItem(result, k)) for k in range(2))
        return relax.Tuple([emit(restored(values)), places])


def _flipped(data: Any) -> Any:
    """Flip the highest bit of int64."""
    return relax.op.bitwise_xor(data, relax.const(_HIGHEST_BIT, "int64"))
