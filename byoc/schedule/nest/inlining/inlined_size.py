"""The size of a loop nest after TVM has inlined its variables.

TVM's `StmtSimplify` replaces each variable by its value unless that reads memory. Each function
of a chain that uses its operand several times then multiplies the code, so a chain of four, as
``tanh(exp(tanh(exp(x))))``, did not compile in minutes. Such a chain is scheduled block by block.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

#: Uses of variables above which TVM's passes take more than some seconds.
MOST_USES = 100_000


def inlined_size(stmt: Any) -> int:
    """Return how many variables the stores of a statement use once values are in their place."""
    sizes: dict[Any, int] = {}
    total = 0

    def size(value: Any) -> int:
        uses: list[Any] = []
        tvm_ffi.structural_walk(value, (ir.Var, uses.append))
        return sum(sizes.get(var, 1) for var in uses)

    def bind(node: Any) -> None:
        loads: list[Any] = []
        tvm_ffi.structural_walk(node.value, (ir.TensorLoad, loads.append))
        sizes[node.var] = 1 if loads else max(1, size(node.value))

    def store(node: Any) -> None:
        nonlocal total
        total += size(node.value)

    tvm_ffi.structural_walk(stmt, [(tirx.Bind, bind), (tirx.BufferStore, store)])
    return total
