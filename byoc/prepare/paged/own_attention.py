"""Replace attention over pages and ragged batches by kernels of our own, for a CPU.

TVM's kernels for GPUs have threads that share memory, and run on a CPU statement by statement.
Those for CPUs are loops over single elements. A PrimFunc that is known to be one of them, by
`op_info`, gets another body; its parameters stay, as the cache calls it with them.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis import OpInfo, Refusal, op_info
from ....analysis.lifting.tir.node import items
from ....analysis.support.ir.rewrite_functions import replaced_functions
from ...codegen.vector_units import VectorUnits, machine
from .attention_kernel import attention_kernel
from .attention_operands import AttentionOperands


def own_attention(mod: Any, target: Any) -> Any:
    """Return a module with such kernels; ``mod`` is not changed.

    Args:
        mod: A module of Relax functions and PrimFuncs.
        target: TVM's target; another one than LLVM keeps all functions.
    """
    cpu = machine(target)
    return mod if cpu is None else replaced_functions(mod, lambda func: _replaced(func, cpu))


def _replaced(func: Any, cpu: VectorUnits) -> Any:
    """Return a PrimFunc with a kernel of our own; the same function if it has none."""
    if not isinstance(func, tirx.PrimFunc) or not _has_factors(func):
        return func
    info = op_info(func)
    operands = AttentionOperands.of(func, info) if isinstance(info, OpInfo) else info
    return func if isinstance(operands, Refusal) else attention_kernel(func, operands, cpu)


def _has_factors(func: Any) -> bool:
    """Return whether three numbers follow each other among the parameters, as for attention.

    They are the factor of positions, the base of frequencies and the factor of scores. Few other
    functions have such, and reading a function takes long.
    """
    numbers = [not is_buffer_var(p) and str(p.ty.dtype) == "float32" for p in items(func.params)]
    return any(all(numbers[k : k + 3]) for k in range(len(numbers) - 2))
