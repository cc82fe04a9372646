"""Schedule a PrimFunc for a GPU by what its accesses are, or refuse.

Rules are tried in order; the first that applies to all steps of the PrimFunc is used. TVM's own
rules are for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tvm import tirx

from .....analysis import Refusal
from .....analysis.support.wording import last_line
from .....layout.rewrite.rewrite import TVM_RAISES
from .narrow_kernel import narrow
from .pointwise_kernel import pointwise
from .program.gpu_program import GpuProgram, NoGpuSchedule, has_symbols, is_coupled, read_program
from .program.outer_axes import with_blocks
from .program.thread_loops import kernels
from .rows.column_kernel import columns_kernel, short_columns_kernel
from .rows.row_kernel import few_rows_kernel, rows_kernel, short_rows_kernel
from .transpose_kernel import transposed
from .window_kernel import windows

#: The attribute with which dlight marks scheduled PrimFuncs.
DONE = "tirx.is_scheduled"

Rule = Callable[[GpuProgram], tuple[Any, list[Any]]]

#: The rules for steps with results that depend on one another, such as the place of a maximum.
COUPLED = ("rows", "long rows", "few rows", "pointwise", "short rows")

#: Name, whether to keep the results of function calls that several steps read, and the rule.
RULES: tuple[tuple[str, bool, Rule], ...] = (
    ("rows", True, rows_kernel), ("long rows", False, rows_kernel),
    ("columns", True, columns_kernel), ("long columns", False, columns_kernel),
    ("transposed", False, transposed), ("narrow", False, narrow),
    ("windows", False, windows), ("few rows", True, few_rows_kernel),
    ("pointwise", False, pointwise),
    ("short columns", True, short_columns_kernel), ("short rows", False, short_rows_kernel),
)  # fmt: skip


def gpu_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc over threads that computes the same; ``func`` is not changed."""
    if not isinstance(func, tirx.PrimFunc):
        return Refusal(f"expected a PrimFunc, got {type(func).__name__}")
    reasons = []
    for name, keep, rule in RULES:
        try:
            program = read_program(func, keep, symbolic=has_symbols(func))
            if name not in COUPLED and any(map(is_coupled, program.steps)):
                raise NoGpuSchedule("the results of a block depend on one another")
            nest, buffers = rule(program)
        except NoGpuSchedule as error:
            reasons.append(f"{name}: {error}")
            continue
        except TVM_RAISES as error:  # int32 iterators beside int64 ones in a condition
            reasons.append(f"{name}: TVM rejects it: {last_line(error)}")
            continue
        nest = with_blocks(nest, program.outer)
        if nest is None:
            reasons.append(f"{name}: blocks are not the outermost loop")
            continue
        return kernels(func, [nest], buffers).with_attr(DONE, True)
    return Refusal("; ".join(dict.fromkeys(reasons)))


def directly_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc in which a thread computes each vector of results alone.

    It is for products and convolutions that no other schedule fits.
    """
    try:
        nest, buffers = pointwise(read_program(func, False, products=True), most=sys.maxsize)
    except NoGpuSchedule as error:
        return Refusal(f"direct: {error}")
    except TVM_RAISES as error:
        return Refusal(f"direct: TVM rejects it: {last_line(error)}")
    return kernels(func, [nest], buffers).with_attr(DONE, True)
