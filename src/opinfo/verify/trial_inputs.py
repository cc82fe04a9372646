"""Seeded inputs of trial runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ..analysis.lifting.tir.node import NodeDict, items
from ..analysis.support.tvm_compat import GenericConst, array_of

Array = np.ndarray[Any, Any]
#: Value of symbolic extents.
EXTENT = 2
#: Operators that keep the values of a tensor.
_KEEP = ("relax.astype", "relax.reshape", "relax.squeeze", "relax.expand_dims")


def trial_inputs(mod: Any, seed: int) -> list[Array]:
    """Return seeded values of the parameters of `main`.

    Integers are 0 or 1, or the number that the program tests a parameter for: such a test chooses
    the branch of a conditional, as a sampling rate does, and another one may not run at this size.
    """
    rng = np.random.default_rng(seed)
    tested = _tested(mod["main"])
    out = []
    for param in mod["main"].params:
        shape = [int(getattr(e, "value", EXTENT)) for e in param.ty.shape.values]
        dtype = str(param.ty.dtype)
        drawn = rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 2, shape)
        number = tested.get(param)
        out.append((drawn if number is None else np.full(shape, number)).astype(dtype))
    return out


def _tested(func: Any) -> NodeDict[int]:
    """Return the integer that a parameter is first tested to be equal to, by parameter."""
    source: NodeDict[Any] = NodeDict()
    for param in func.params:
        source[param] = param
    out: NodeDict[int] = NodeDict()

    def visit(binding: Any) -> None:
        call = binding.value
        name = str(getattr(getattr(call, "op", None), "name", ""))
        if name not in (*_KEEP, "relax.equal"):
            return
        operands = items(call.args)[: 2 if name == "relax.equal" else 1]
        params = [source.get(a) for a in operands if isinstance(a, relax.Var)]
        if len(params) != 1 or params[0] is None:
            return
        if name in _KEEP:
            source[binding.var] = params[0]
            return
        numbers = [array_of(a).numpy() for a in operands if isinstance(a, GenericConst)]
        if numbers and numbers[0].size == 1 and numbers[0].dtype.kind in "iu":
            if params[0] not in out:
                out[params[0]] = int(numbers[0].reshape(-1)[0])

    tvm_ffi.structural_walk(func, (relax.VarBinding, visit))
    return out
