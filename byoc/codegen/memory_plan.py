"""TVM's memory plan, restricted to modules for which it works.

If a function has branches, the plan may place a later tensor in memory that only one branch
allocates; such modules are not planned. If upper bounds of dimensions are declared, each request
allocates memory for the bounds: 64 GiB for attention over 65536 tokens. If that is too much, the
bounds are dropped, and tensors are allocated by their actual sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from math import inf, prod
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.index_map.maps.numeric import evaluate
from ...analysis.index_map.maps.to_terms import Unsupported
from ...analysis.lifting.tir.node import items

UPPER = "tir_var_upper_bound"
#: Largest tensor in bytes that may be allocated for a request that needs less.
MOST = 1 << 30


def planning(mod: Any) -> AbstractContextManager[Any]:
    """A context in which TVM plans memory only if no function has branches."""
    if not any(map(_branches, mod.functions.values())):
        return nullcontext()
    current = tvm.transform.PassContext.current()
    context: AbstractContextManager[Any] = tvm.transform.PassContext(
        current.opt_level, current.required_pass, [*current.disabled_pass, "StaticPlanBlockMemory"],
        current.instruments, current.config)  # fmt: skip
    return context


def unbounded(mod: Any) -> Any:
    """The module without upper bounds that make a tensor too large; ``mod`` is not changed."""
    out = mod.clone()
    for gvar, func in mod.functions.items():
        if isinstance(func, relax.Function) and UPPER in (func.attrs or {}) and _large(func):
            out.update_func(gvar, func.without_attr(UPPER))
    return out


def _branches(func: Any) -> bool:
    branches: list[Any] = []
    if isinstance(func, relax.Function):
        tvm_ffi.structural_walk(func.body, [(relax.If, branches.append)])
    return bool(branches)


def _large(func: Any) -> bool:
    bounds = {str(name): int(high) for name, high in func.attrs[UPPER].items()}
    variables: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(relax.Var, variables.append)])
    return any(_bytes(v.ty, bounds) > MOST for v in variables if isinstance(v.ty, relax.TensorType))


def _bytes(tensor_type: Any, bounds: Mapping[str, int]) -> float:
    """The bytes of a tensor at the upper bounds of its dimensions; 0 if one has no bound."""
    extents = items(getattr(tensor_type.shape, "values", None) or [])
    free = [v for e in extents for v in tirx.analysis.undefined_vars(e)]
    if not all(str(v.name) in bounds for v in free):
        return 0
    at = {v: np.asarray(bounds[str(v.name)]) for v in free}
    try:
        count: float = prod(float(evaluate(e, at)) for e in extents)
    except Unsupported:  # an extent exceeds 64 bits
        return inf
    return count * float(tvm_ffi.dtype(tensor_type.dtype).bits) / 8
