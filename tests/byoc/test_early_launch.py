"""Kernels that are launched before the previous one is complete wait before they touch tensors."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from opinfo.byoc.backends.nvidia.graphs.early_launch import (
    EARLY,
    LAUNCH,
    PIPELINE,
    with_early_launch,
)

from .test_nvidia_graphs import TARGET

N = tirx.Var("n", "int64")


@T.prim_func(s_tir=True)
def before(x: T.Buffer((T.int64(4), T.int64(64)), "float32"),
           y: T.Buffer((T.int64(4), T.int64(64)), "float32")) -> None:  # fmt: skip
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True, "global_symbol": "main"})
    with T.sblock("root"):
        T.reads()
        T.writes()
        for b in T.thread_binding(T.int64(4), thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(64), thread="threadIdx.x"):
                y[b, t] = x[b, t] + T.float32(1)


@T.prim_func(s_tir=True)
def expected(x: T.Buffer((T.int64(4), T.int64(64)), "float32"),
             y: T.Buffer((T.int64(4), T.int64(64)), "float32")) -> None:  # fmt: skip
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True, "global_symbol": "main",
        "tirx.kernel_launch_params": ["tirx.use_programtic_dependent_launch"]})  # fmt: skip
    with T.sblock("root"):
        T.reads()
        T.writes()
        for b in T.thread_binding(T.int64(4), thread="blockIdx.x"):
            for t in T.thread_binding(T.int64(64), thread="threadIdx.x"):
                T.ptx.griddepcontrol.wait()
                y[b, t] = x[b, t] + T.float32(1)


def _kernel(rows: Any, wide: int = 64) -> Any:
    """As `before`, of another size."""
    x, y = (tirx.decl_buffer((rows, wide), "float32", name=n) for n in "xy")
    b, t = (tirx.Var(n, "int64") for n in "bt")
    body: Any = tirx.BufferStore(y, x[b, t], [b, t])
    for var, extent, tag in ((t, 64, "threadIdx.x"), (b, rows, "blockIdx.x")):
        thread = tirx.IterVar(None, tirx.Var(tag, "int64"), tirx.IterVar.ThreadIndex, tag)
        body = tirx.For(var, 0, extent, tirx.ForKind.THREAD_BINDING, body, thread)
    return tirx.PrimFunc([x, y], body)


def test_threads_wait_first() -> None:
    tvm.ir.assert_structural_equal(with_early_launch(before, TARGET), expected)


OLD = tvm.target.Target({"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152, "thread_warp_size": 32})  # fmt: skip


@pytest.mark.parametrize(
    ("func", "target"),
    [(before, OLD), (_kernel(1 << 17), TARGET), (_kernel(N), TARGET)],
    ids=["an older device", "8 MiB each", "a size that is known at run time"],
)
def test_others_are_launched_as_before(func: Any, target: Any) -> None:
    assert with_early_launch(func, target).same_as(func)


def test_a_loop_on_the_host_is_no_kernel() -> None:
    @T.prim_func(s_tir=True)
    def host(y: T.Buffer((T.int64(4),), "float32")) -> None:
        for i in range(4):
            y[i] = T.float32(0)

    assert with_early_launch(host, TARGET).same_as(host)


@pytest.mark.parametrize("early", [True, False])
def test_what_a_kernel_reads_is_not_taken_for_constant(early: bool) -> None:
    func = with_early_launch(before, TARGET) if early else before
    with TARGET:
        built = tirx.build(tvm.IRModule({"main": func}), target=TARGET, pipeline=PIPELINE)
    source = _sources(built)
    kernel = source[source.rindex('extern "C"') :]
    wait = "griddepcontrol_wait();"
    assert ("__restrict__" in kernel) == (not early)
    assert (wait in kernel) == early
    if early:
        assert kernel.index(wait) < kernel.index("x_ptr[")
        assert '"griddepcontrol.wait;" :  :  : "memory"' in source


def _sources(module: Any) -> str:
    own = module.inspect_source("cuda") if module.kind == "cuda" else ""
    return "".join([own, *map(_sources, module.imports_)])


def test_the_launch_says_so() -> None:
    lower, _, _ = tirx.get_tir_pipeline(PIPELINE)
    bound = tirx.transform.BindTarget(TARGET.with_host("llvm"))
    with TARGET:
        mod = lower(bound(tvm.IRModule({"main": with_early_launch(before, TARGET)})))
    (kernel,) = [f for g, f in mod.functions_items() if g.name_hint == "main_kernel"]
    assert EARLY in [str(tag) for tag in kernel.attrs[LAUNCH]]
