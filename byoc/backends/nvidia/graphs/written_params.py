"""The parameters that a PrimFunc writes."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.lifting.tir.node import items
from .....analysis.support.ir.call_ops import op_name

#: By an address a PrimFunc may write what its stores do not name.
ADDRESSES = ("address_of", "access_ptr", "tvm_access_ptr", "call_packed", "tvm_call_packed",
             "call_extern", "call_llvm")  # fmt: skip


def written_params(func: Any) -> tuple[int, ...]:
    """The numbers of the parameters that may be written: all of them, if it takes addresses."""
    stored: list[Any] = []
    called: list[Any] = []
    tvm_ffi.structural_walk(func.body, [
        (tirx.BufferStore, lambda s: stored.append(s.buffer)),
        (tvm.ir.Call, lambda c: called.append(op_name(c).rpartition(".")[2])),
    ])  # fmt: skip
    params = items(func.params)
    if set(called) & set(ADDRESSES):
        return tuple(range(len(params)))
    return tuple(k for k, p in enumerate(params) if any(p.same_as(b) for b in stored))
