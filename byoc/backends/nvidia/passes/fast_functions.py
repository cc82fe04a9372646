"""Functions by the fast instructions of a GPU, in kernels whose results are rounded to halves.

Before: T.sigmoid(x)        1 / (1 + expf(-x)), exact to 1 in 2**23: 30 instructions
After:  __fdividef(x < 0 ? t : 1, 1 + t), t = __expf(-|x|)   1 in 2**17: 8 instructions

A half has 2**-11. Of halves themselves the functions are computed in float32, and rounded once.
The divisor is at most 2, as ``__fdividef`` returns 0 for one above 2**126, of which a float32
between the sigmoid and the result may be the logarithm.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from .....analysis.lifting.tir.node import as_dtype, items
from .....analysis.support.ir.call_ops import op_name

HALVES = ("float16", "bfloat16")


def with_fast_functions(func: Any) -> Any:
    """Return a PrimFunc with fast functions, if all its results are halves, else unchanged."""
    if not isinstance(func, tirx.PrimFunc):
        return func
    stored: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: stored.append(s.buffer)))
    results = [p for p in items(func.params) if is_buffer_var(p)
               and any(p.same_as(b) for b in stored)]  # fmt: skip
    if not results or any(str(p.ty.dtype) not in HALVES for p in results):
        return func
    body = tvm_ffi.structural_mutate(func.body, [(tvm.ir.Call, _call)])
    return func.with_body(body)


def _call(node: Any, mutator: Any) -> Any:
    node = mutator.default_mutate(node)
    name = op_name(node).rpartition(".")[2]
    dtype = str(getattr(node.ty, "dtype", ""))  # pointers have none
    if name not in _FAST or dtype not in (*HALVES, "float32"):
        return node
    return as_dtype(_FAST[name](as_dtype(items(node.args)[0], "float32")), dtype)


def _exp(x: Any) -> Any:
    return tirx.call_pure_extern("float32", "__expf", x)


def _sigmoid(x: Any) -> Any:
    zero, one = (tirx.FloatImm("float32", value) for value in (0.0, 1.0))
    small = _exp(zero - tirx.abs(x))
    above = tirx.Select(x < zero, small, one)
    return tirx.call_pure_extern("float32", "__fdividef", above, one + small)


_FAST = {"exp": _exp, "sigmoid": _sigmoid}
