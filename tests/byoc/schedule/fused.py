"""Fused PrimFuncs of expressions over symbolic shapes, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.codegen.vector_units import machine
from opinfo.byoc.dims.symbolic_dims import bind, symbols
from opinfo.byoc.schedule import Scheduled, schedule

from ...common.prim_funcs import fused as lowered_and_fused
from ...common.prim_funcs import prim_funcs
from ...common.run import sooner

Shape = Sequence[int | str]
Expr = Callable[..., Any]

TARGET = native_target()
#: CPUs by the floats of a vector. What is built runs on those that are not wider than this one.
WIDTHS = {"x86-64": 4, "haswell": 8, "skylake-avx512": 16}


def fused(shapes: Sequence[Shape], expr: Expr, dtypes: Sequence[str] = ()) -> list[Any]:
    """The PrimFuncs that FuseTIR leaves of ``expr(emit, *parameters)``; a letter is a symbol."""
    names: dict[str, Any] = {}

    def dim(d: int | str) -> Any:
        return d if isinstance(d, int) else names.setdefault(d, tirx.Var(d, "int64"))

    kinds = [*dtypes, *["float32"] * len(shapes)]
    given = [relax.Var(f"x{k}", relax.TensorType([*map(dim, s)], kinds[k]))
             for k, s in enumerate(shapes)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(expr(builder.emit, *given)))
        builder.emit_func_output(out)
    return prim_funcs(lowered_and_fused(builder.get()))


def fused_one(shapes: Sequence[Shape], expr: Expr, dtypes: Sequence[str] = ()) -> Any:
    (func,) = fused(shapes, expr, dtypes)
    return func


def built(func: Any, target: Any = TARGET) -> Any:
    """A PrimFunc as a callable, of which LLVM optimises nothing: half the time."""
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return tvm.tirx.build(mod, target=sooner(target))["main"]


@cache
def target_of(mcpu: str) -> Any:
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu})


def target_lanes() -> int:
    """The floats of a vector of this CPU."""
    found = machine(TARGET)
    assert found is not None
    return found.lanes("float32")


def scheduled(func: Any, target: Any = TARGET) -> Scheduled:
    """The schedule of a PrimFunc, which has one and is not changed by it."""
    before = tvm.ir.save_json(func)
    found = schedule(func, target)
    assert isinstance(found, Scheduled), found
    assert tvm.ir.save_json(func) == before
    assert bool(found.func.attrs["tirx.noalias"]) and bool(found.func.attrs["tirx.is_scheduled"])
    return found


def at(func: Any, sizes: Mapping[str, int]) -> Any:
    """The function bound at those of some sizes that it has."""
    return bind(func, {s.name: sizes[s.name] for s in symbols(func)})


def inputs(func: Any, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Seeded arrays for all parameters, the results as NaN or a pattern of bits."""
    rng = np.random.default_rng(seed)
    out = []
    params = list(at(func, sizes).params)
    for p in params:
        shape, dtype = [int(e) for e in p.ty.shape], str(p.ty.dtype)
        whole = rng.integers(-4, 5, shape) if "int" in dtype else rng.standard_normal(shape)
        out.append(np.asarray(whole).astype(dtype))
    return out


def run(kernel: Any, arrays: Sequence[Any], results: int = 1) -> list[Any]:
    """The results of a kernel, whose buffers hold something else before."""
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    kernel(*tensors)
    return [t.numpy() for t in tensors[-results:]]
