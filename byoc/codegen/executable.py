"""Code for TVM's virtual machine that builds each tensor shape only once in a call.

    Before: %3 = make_shape(%1, 2, n, 256);  %4 = alloc_tensor(%2, %3);  …
            %9 = make_shape(%1, 2, n, 256);  %10 = alloc_tensor(%8, %9)
    After:  %3 = make_shape(%1, 2, n, 256);  %4 = alloc_tensor(%2, %3);  …
            %10 = alloc_tensor(%8, %3)

TVM builds one for each tensor with a symbolic shape. Reuse is safe: a dimension's slot on the shape
heap is written once, before the first shape that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from ...analysis.lifting.tir.node import items
from ...analysis.support.ir import empty_constants
from ...analysis.support.progress import stage
from ..prepare.loops.kept_nan import kept_nan
from ..prepare.loops.merge_checks import merge_checks
from ..prepare.loops.round_bfloat16 import round_bfloat16
from ..prepare.unwritten.defined_loops import single_elements
from .checks.kept_checks import asserting
from .checks.named_checks import named_checks
from .checks.unchecked_arguments import PIPELINE
from .constant_results import with_copied_constants
from .deduplicate import deduplicate
from .failed_build import why_not_built
from .memory_plan import planning, unbounded

MAKE_SHAPE = "vm.builtin.make_shape"


def executable(
    mod: Any, target: Any, finish: Callable[[Any], Any] = lambda lowered: lowered
) -> Any:
    """Compile a module for a virtual machine; ``mod`` is not changed.

    On CPUs, ``finish`` is applied to the lowered module.

    Differs from `tvm.compile` in deduplicated shapes, memory plans (`planning`) and kept assertions
    (`asserting`); on CPUs also in results that are constants (`with_copied_constants`), in merged
    checks (`merge_checks`), in checks that name their node (`named_checks`), in bfloat16 and NaN
    (`round_bfloat16`, `kept_nan`), and in indices into one element (`single_elements`).

    Raises:
        FailedBuild: TVM cannot build a PrimFunc for a CPU.
    """
    stage("compiling")
    mod = empty_constants.replaced(unbounded(mod), empty_constants.as_call)
    with asserting(), planning(mod):
        if (
            target is not None and "gpu" in tvm.target.Target(target).keys
        ):  # TVM has a separate pipeline for GPUs
            return tvm.compile(mod, target=target)
        mod = round_bfloat16(with_copied_constants(merge_checks(mod)))
        mod = kept_nan(single_elements(named_checks(mod)))
        pipeline = tvm.transform.module_pass(lambda m, _: finish(_lowered(m)), opt_level=0)
        try:
            return tvm.compile(mod, target=target, relax_pipeline=pipeline, tir_pipeline=PIPELINE)
        except Exception as error:  # TVM's passes raise various types
            raise why_not_built(mod, target, error) from error


def _lowered(mod: Any) -> Any:
    return deduplicate(relax.get_pipeline("default")(mod), _shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The heap and the code of each dimension, if a value builds a shape; else None."""
    if not (isinstance(value, relax.Call) and isinstance(value.op, relax.ExternFunc)
            and str(value.op.global_symbol) == MAKE_SHAPE):  # fmt: skip
        return None
    heap, *codes = items(value.args)
    return heap.__chandle__(), *(int(a.value) for a in codes)
