"""Code for TVM's virtual machine in which the shape of tensors is made once in a call.

    Before: %3 = make_shape(%1, 2, n, 256);  %4 = alloc_tensor(%2, %3);  …
            %9 = make_shape(%1, 2, n, 256);  %10 = alloc_tensor(%8, %9)
    After:  %3 = make_shape(%1, 2, n, 256);  %4 = alloc_tensor(%2, %3);  …
            %10 = alloc_tensor(%8, %3)

TVM makes one for each tensor of a symbolic shape. A dimension's place on the heap of shapes is
written once, before the first shape that has it.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ...analysis.lifting.tir.node import items
from ...analysis.support.progress import stage
from .deduplicate import once
from .memory import planning, unbounded

MAKE_SHAPE = "vm.builtin.make_shape"


def executable(mod: Any, target: Any) -> Any:
    """A module as `tvm.compile` makes it for a virtual machine, but for that and for plans of
    memory that cannot be; ``mod`` is not changed."""
    stage("compiling")
    mod = unbounded(mod)
    with planning(mod):
        if target is not None and "gpu" in tvm.target.Target(target).keys:  # by another pipeline
            return tvm.compile(mod, target=target)
        pipeline = tvm.transform.module_pass(_lowered, opt_level=0)
        return tvm.compile(mod, target=target, relax_pipeline=pipeline)


def _lowered(mod: Any, _: Any) -> Any:
    return once(relax.get_pipeline("default")(mod), _shape)


def _shape(value: Any) -> tuple[int, ...] | None:
    """The heap, and how each dimension is to be had, where a shape is made."""
    if not (isinstance(value, relax.Call) and isinstance(value.op, relax.ExternFunc)
            and str(value.op.global_symbol) == MAKE_SHAPE):  # fmt: skip
        return None
    heap, *told = items(value.args)
    return heap.__chandle__(), *(int(a.value) for a in told)
