"""Finish a dispatched module: bring the remaining operators into the form that TVM runs best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from ...layout.rewrite.func_proofs import FuncProofs
from ...layout.search.constraints import Desired
from ..dispatching.dispatched import Dispatched
from ..dispatching.fallback_layouts import in_fallback_layouts
from ..prepare.integers import DEQUANTIZE
from ..prepare.loops.serial_threads import serial_threads
from ..prepare.paged.own_attention import own_attention
from .build_library import on_gpu


def finish_module(
    result: Dispatched, plan: bool, desired: Desired | str | None, target: Any,
    proofs: FuncProofs | None = None,
) -> Dispatched:  # fmt: skip
    """Fold integer constants that no backend took; with ``plan``, lay out remaining operators.

    On a CPU, attention over pages has kernels of our own, and loops over threads of a GPU run one
    after another.

    Raises:
        ValueError: On a CPU, threads of a PrimFunc need each other in a way that is not understood.
    """
    if not on_gpu(target):
        result = replace(result, module=serial_threads(own_attention(result.module, target)))
    if any(o.op == DEQUANTIZE for o in result.left):
        result = replace(result, module=relax.transform.FoldConstant()(result.module))
    return in_fallback_layouts(result, desired, target, proofs) if plan else result
