"""Code whose results are compared with others, compiled in a third of the time.

LLVM does not optimise it. Half of a kernel checks that its arguments have the sizes that it was
compiled for; it is left out where all sizes are known, and no function asserts anything else.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ..byoc.prepare.unwritten.defined_loops import single_elements

#: LLVM's options that make machine code sooner; other code keeps its own.
_SOON = ("fast-isel:bool=true", "disable-cgp:bool=true", "disable-lsr:bool=true",
         "disable-machine-licm:bool=true", "disable-machine-cse:bool=true",
         "disable-branch-fold:bool=true", "enable-misched:bool=false")  # fmt: skip
TARGET = {"kind": "llvm", "opt-level": 0, "cl-opt": [f"-{option}" for option in _SOON]}


def unoptimised(mod: tvm.IRModule | tirx.PrimFunc, **options: Any) -> Any:
    """Compile for any CPU of this machine's kind; ``options`` are those of `tvm.compile`."""
    funcs = [mod] if isinstance(mod, tirx.PrimFunc) else mod.functions.values()
    config = {} if any(map(_may_fail, funcs)) else {"tirx.disable_assert": True}
    with tvm.transform.PassContext(opt_level=2, config=config):
        return tvm.compile(_defined(mod), tvm.target.Target(TARGET), **options)


def _defined(mod: Any) -> Any:
    """Without reads behind buffers of one element: what is there depends on the optimisation."""
    if isinstance(mod, tirx.PrimFunc):
        return single_elements(tvm.IRModule({"main": mod}))["main"]
    return single_elements(mod)


def _may_fail(func: Any) -> bool:
    """Whether a function takes or finds sizes, or asserts."""
    if isinstance(func, relax.Function):
        return bool(relax.analysis.defined_symbolic_vars(func))
    if not isinstance(func, tirx.PrimFunc):
        return False
    if not all(map(is_buffer_var, func.params)):
        return True
    if not all(isinstance(e, tirx.IntImm) for p in func.params for e in p.ty.shape):
        return True
    asserts: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(tirx.AssertStmt, asserts.append)])
    return bool(asserts)
