"""Modules whose functions are long enough to be scheduled."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.schedule.scheduled_functions import FEWEST

op, nn = relax.op, relax.op.nn
LONG, SHORT = (64, FEWEST // 64), (8, 16)


def gates(shape: Any, dtype: str = "float32") -> tvm.IRModule:
    """`y = (x · s + t) · min(relu(x · s + t + 3), 6) / 6`, with `s` and `t` by columns."""
    builder = relax.BlockBuilder()
    x, s, t = (relax.Var(n, relax.TensorType(e, dtype))
               for n, e in (("x", shape), ("s", shape[1:]), ("t", shape[1:])))  # fmt: skip
    with builder.function("main", [x, s, t]):
        y = builder.emit(op.add(op.multiply(x, s), t))
        three, six = relax.const(3, dtype), relax.const(6, dtype)
        gate = op.minimum(nn.relu(op.add(y, three)), six)
        out = builder.emit(op.divide(op.multiply(y, gate), six))
        builder.emit_func_output(out)
    mod = relax.transform.ConvertToDataflow()(builder.get())
    return fuse(relax.transform.LegalizeOps()(mod))


def one(shape: Any, expr: Any) -> tvm.IRModule:
    """A module with one operator on `x`."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(expr(x)))
    return fuse(relax.transform.LegalizeOps()(builder.get()))


def expected(x: Any, s: Any, t: Any) -> Any:
    y = x.astype(np.float64) * s + t
    return y * np.clip(y + 3, 0, 6) / 6


def arrays(shape: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(e).astype("float32") for e in (shape, shape[1:], shape[1:])]


def run(program: Any, values: list[Any]) -> Any:
    machine = relax.VirtualMachine(program, tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, values)).numpy()


def loops(func: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, found.append))
    return found


def stores(func: Any) -> set[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: found.append(s.buffer.name)))
    return set(found)


def prim_func(mod: tvm.IRModule) -> Any:
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func


def two(expr: Any) -> tvm.IRModule:
    """A module with one expression of `x` and `z`."""
    builder = relax.BlockBuilder()
    x, z = (relax.Var(n, relax.TensorType(LONG, "float32")) for n in "xz")
    with builder.function("main", [x, z]):
        builder.emit_func_output(builder.normalize(expr(x, z)))
    mod = relax.transform.ConvertToDataflow()(relax.transform.Normalize()(builder.get()))
    return fuse(relax.transform.LegalizeOps()(mod))
