"""The kernel of a product of rows with matrices of their experts."""

from __future__ import annotations

from typing import Any

from .....analysis import Refusal
from ..grouped_weights.gemv_kernel import gemv_kernel
from ..grouped_weights.storage import MOST_ROWS
from ..schedules.gpu_schedule import DONE
from ..schedules.program.gpu_program import NoGpuSchedule
from ..schedules.program.thread_loops import kernels
from .expert_product import expert_product, has_experts
from .expert_tiles import expert_tiles


def expert_scheduled(func: Any) -> Any | Refusal:
    """Return a PrimFunc over threads that multiplies each row; ``func`` is not changed.

    Few rows read the words of their matrices once; many rows are sorted by expert, for tensor
    cores.
    """
    if not has_experts(func):
        return Refusal("no parameters are matrices of experts and the experts of rows")
    try:
        what = expert_product(func)
        few = what.experts is not None and what.experts.rows <= MOST_ROWS
        nest, buffers = gemv_kernel(what) if few else expert_tiles(what)
    except NoGpuSchedule as error:
        return Refusal(f"experts: {error}")
    return kernels(func, [nest], buffers).with_attr(DONE, True)
