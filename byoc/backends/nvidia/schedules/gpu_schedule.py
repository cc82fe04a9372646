"""Schedule a PrimFunc for a GPU by what its accesses are, or refuse.

Rules are tried in order; the first that applies to all steps of the PrimFunc is used. TVM's own
rules are for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from .....analysis import Refusal
from .column_kernel import columns_kernel
from .gpu_program import GpuProgram, Unscheduled, read_program
from .pointwise_kernel import pointwise
from .row_kernel import rows_kernel
from .thread_loops import kernels
from .transpose_kernel import transposed

#: The attribute with which dlight marks scheduled PrimFuncs.
DONE = "tirx.is_scheduled"

Rule = Callable[[GpuProgram], tuple[list[Any], list[Any]]]


def _pointwise(program: GpuProgram) -> tuple[list[Any], list[Any]]:
    nest, buffers = pointwise(program, program.steps)
    return [nest], buffers


def _rows(program: GpuProgram) -> tuple[list[Any], list[Any]]:
    nest, buffers = rows_kernel(program)
    return [nest], buffers


def _columns(program: GpuProgram) -> tuple[list[Any], list[Any]]:
    nest, buffers = columns_kernel(program)
    return [nest], buffers


def _transposed(program: GpuProgram) -> tuple[list[Any], list[Any]]:
    nest, buffers = transposed(program)
    return [nest], buffers


#: Name, whether to keep the results of function calls that several steps read, and the rule.
RULES: tuple[tuple[str, bool, Rule], ...] = (
    ("rows", True, _rows), ("long rows", False, _rows),
    ("columns", True, _columns), ("long columns", False, _columns),
    ("transposed", False, _transposed), ("pointwise", False, _pointwise),
)  # fmt: skip


def gpu_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc over threads that computes the same; ``func`` is not changed."""
    if not isinstance(func, tirx.PrimFunc):
        return Refusal(f"expected a PrimFunc, got {type(func).__name__}")
    reasons = []
    for name, keep, rule in RULES:
        try:
            nests, buffers = rule(read_program(func, keep))
        except Unscheduled as error:
            reasons.append(f"{name}: {error}")
            continue
        return kernels(func, nests, buffers).with_attr(DONE, True)
    return Refusal("; ".join(reasons))
