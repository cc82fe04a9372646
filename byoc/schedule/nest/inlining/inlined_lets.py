"""Replace names of values inside an expression by the values.

    Before: y[i] = let a = f(x[i]) in a * g(a)
    After:  y[i] = f(x[i]) * g(f(x[i]))

TVM's simplifier rejects a name with two values, which it has once a loop is unrolled or has a
remainder. LLVM computes equal values once.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .....analysis.blocks.tir import values
from .....analysis.lifting.tir.node import substitute

#: Nodes that the copies of a value may have.
MOST = 2000


def inlined_lets(func: Any) -> Any:
    """Return a PrimFunc without `Let`, except where copies of a value would be large."""
    names: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.Let, names.append))
    if not names:
        return func
    body = tvm_ffi.structural_mutate(func.body, [(tirx.Let, _inlined)])
    return tirx.PrimFunc(func.params, body, func.ret_type, func.attrs)


def _inlined(let: Any, mutator: Any) -> Any:
    let = mutator.default_mutate(let)
    uses = _count(let.body, lambda node: node.same_as(let.var))
    if uses * _count(let.value, lambda _: True) > MOST:
        return let
    return substitute(let.body, values((let.var, let.value)))


def _count(expr: Any, wanted: Any) -> int:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expr, (tvm.ir.Expr, lambda n: nodes.append(n) if wanted(n) else None))
    return len(nodes)
