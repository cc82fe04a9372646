"""PrimFuncs that TVM's own legalisation gives, for tests of layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, tirx


def lowered(op: Callable[..., Any], *operands: Any) -> Any:
    """The one PrimFunc of an op; an operand is a shape, of float32, or ``(shape, dtype)``."""
    types = [o if o and isinstance(o[-1], str) else (o, "float32") for o in operands]
    args = [relax.Var(f"x{k}", relax.TensorType(s, d)) for k, (s, d) in enumerate(types)]
    bb = relax.BlockBuilder()
    with bb.function("main", args):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(op(*args)))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func
