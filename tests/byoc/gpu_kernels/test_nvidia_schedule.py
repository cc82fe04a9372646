"""What is left to TVM on a GPU runs there, whatever the order of its loops, or is named."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.byoc.backends.nvidia import tvm_schedules
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import DONE
from opinfo.byoc.backends.nvidia.tvm_schedules import compiled, in_order, scheduled
from opinfo.testing.unoptimised import unoptimised

from ...layout import nets

TARGET = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024,
          "max_shared_memory_per_block": 49152, "thread_warp_size": 32}  # fmt: skip


@T.prim_func(s_tir=True)
def pool(x: T.Buffer((9, 9, 8), "float32"), y: T.Buffer((4, 4, 8), "float32")) -> None:
    for i, j, r, s, c in T.grid(4, 4, 3, 3, 8):  # channels innermost, as a CPU likes it
        with T.sblock("pool"):
            vi, vj, vc, vr, vs = T.axis.remap("SSSRR", [i, j, c, r, s])
            with T.init():
                y[vi, vj, vc] = T.float32(-3e38)
            y[vi, vj, vc] = T.max(y[vi, vj, vc], x[vi * 2 + vr, vj * 2 + vs, vc])


@T.prim_func(s_tir=True)
def opaque(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
    for i in range(8):
        y[i] = x[i] + T.float32(1)


def _loops(func: Any) -> list[str]:
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func}))
    block = schedule.get_sblock("pool")
    return [schedule.get(x).loop_var.name for x in schedule.get_loops(block)]


def test_loops_come_in_the_order_of_the_axes() -> None:
    assert _loops(pool) == ["i", "j", "r", "s", "c"]
    found = in_order(pool)
    assert _loops(found) == ["i", "j", "c", "r", "s"]
    x = np.random.default_rng(0).standard_normal((9, 9, 8)).astype("float32")
    results = []
    for func in (pool, found):
        y = tvm.runtime.tensor(np.zeros((4, 4, 8), "float32"))
        unoptimised(func)(tvm.runtime.tensor(x), y)
        results.append(y.numpy())
    np.testing.assert_array_equal(*results)


def test_a_function_that_tvm_left_on_the_host_is_scheduled() -> None:
    mod = tvm.IRModule({"pool": pool.with_attr("global_symbol", "pool")})
    target = tvm.target.Target(TARGET)
    with target:  # what TVM does by itself
        alone = tvm.s_tir.dlight.ApplyDefaultSchedule(tvm.s_tir.dlight.gpu.Fallback())(mod)
    assert not alone["pool"].attrs.get(DONE, False)
    found = scheduled(mod, target)
    assert found["pool"].attrs[DONE] and "threadIdx.x" in found["pool"].script()
    assert not mod["pool"].attrs.get(DONE, False)


def test_what_has_no_schedule_is_named() -> None:
    mod = tvm.IRModule({"opaque": opaque.with_attr("global_symbol", "opaque")})
    with pytest.raises(RuntimeError, match="TVM has no GPU schedule for opaque"):
        scheduled(mod, tvm.target.Target(TARGET))


def test_all_of_a_net_is_over_threads() -> None:
    found = scheduled(nets.net(nets.residual, (2, 3, 16, 16)), tvm.target.Target(TARGET))
    funcs = [f for _, f in found.functions_items() if not isinstance(f, relax.Function)]
    assert len(funcs) > 5
    assert all("threadIdx.x" in f.script() for f in funcs)


def test_what_has_a_schedule_is_not_fused_again() -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.exp(e(relax.op.multiply(x, x)))), (32, 64))
    text = compiled(mod, tvm.target.Target(TARGET), lambda m: m).as_text()
    called = {n for n in re.findall(r"call\s+(\S+)", text) if not n.startswith("vm.")}
    assert called == {"multiply", "tir_exp"}


@T.prim_func(s_tir=True)
def unordered(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
    """Stages of a software pipeline without an order, at which TVM's lowering raises."""
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for _ in T.thread_binding(1, thread="threadIdx.x"):
            for i in T.serial(4, annotations={"software_pipeline_stage": [0]}):
                with T.sblock("copy"):
                    v = T.axis.spatial(4, i)
                    y[v] = x[v]


def product(rows: int) -> Any:
    """A product of halves by TVM's operators, for which it has a schedule with tensor cores."""
    x, w = (relax.Var(n, relax.TensorType((rows, rows), "float16")) for n in "xw")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        builder.emit_func_output(builder.emit(relax.op.matmul(x, w)))
    return relax.transform.LegalizeOps()(builder.get())


def fragments(mod: Any) -> bool:
    """Whether tensor cores multiply."""
    return any("wmma" in f.script() for g, f in mod.functions_items() if g.name_hint != "main")


def test_a_schedule_that_does_not_lower_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tvm.target.Target(TARGET)
    mod = product(128)
    assert fragments(scheduled(mod, target))
    lowered = tvm_schedules._lowers
    monkeypatch.setattr(tvm_schedules, "_lowers",
                        lambda f, t: "wmma" not in f.script() and lowered(f, t))  # fmt: skip
    assert not fragments(scheduled(mod, target))


def test_what_raises_when_it_is_lowered_is_found() -> None:
    target = tvm.target.Target(TARGET)
    (good,) = (f for g, f in scheduled(product(32), target).functions_items()
               if g.name_hint != "main")  # fmt: skip
    assert tvm_schedules._lowers(good, target)
    assert not tvm_schedules._lowers(unordered, target)
