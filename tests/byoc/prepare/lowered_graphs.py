"""Graphs that are lowered without names, and the operators that are left of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.analysis import Chain, op_infos
from opinfo.testing.strip import strip_module

Build = Callable[..., Any]


def weight(*shape: int, seed: int = 0) -> Any:
    return relax.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def module(build: Build, *shapes: tuple[Any, ...], lowered: bool = True) -> Any:
    """A function over float32 parameters; lowered, without names."""
    params = [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            results = [builder.emit_output(r) for r in build(builder.emit, *params)]
        builder.emit_func_output(relax.Tuple(results))
    return strip_module(relax.transform.LegalizeOps()(builder.get())) if lowered else builder.get()


def names(mod: Any) -> list[str]:
    """The operators of the calls of PrimFuncs, and of other calls, in order."""
    out: list[str] = []

    def one(expr: Any) -> None:
        if str(getattr(getattr(expr, "op", None), "name", "")) == "relax.call_tir":
            chain = op_infos(mod[expr.args[0]])
            assert isinstance(chain, Chain)
            out.extend(chain.names)
        elif isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            out.append(str(expr.op.name))

    relax.analysis.post_order_visit(mod["main"], one)
    return [n.removeprefix("relax.") for n in out]
