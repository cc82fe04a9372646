"""Kernels: threads that share memory are one definition; real races are refused."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from opinfo.analysis import OpInfo, lift, op_info
from opinfo.analysis.lifting.tir.unliftable import Unliftable

from ..answers.scheduled_ops import legal
from ..answers.schedules.generated_schedules import by_dlight
from ..answers.schedules.schedule_steps import fresh
from ..answers.schedules.scheduled_forms import SCHEDULES

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"
ARGS = 'def main(x: T.Buffer((4, 8), "float32"), out: T.Buffer((4, 8), "float32")):\n'


def program(body: str) -> Any:
    return tvm.script.from_source(HEADER + ARGS + body.lstrip("\n"))


REVERSED = """
    for i, j in T.grid(4, 8):
        out[i, j] = x[i, 7 - j]
"""

THROUGH_SHARED = """
    t = T.alloc_buffer((8,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[i] = x[b, i]
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[7 - i]
"""

SAME = {
    "through shared memory": THROUGH_SHARED,
    "fetched by all threads inside their loop": """
    t = T.alloc_buffer((8,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            for j in T.thread_binding(8, "threadIdx.x"):
                t[j] = x[b, j]
            out[b, i] = t[7 - i]
""",
    "a value that each thread keeps": """
    t = T.alloc_buffer((1,), "float32", scope="local")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[0] = x[b, 7 - i]
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[0]
""",
    "two kernels": """
    t = T.alloc_buffer((4, 8), "float32")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[b, i] = x[b, i]
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[b, 7 - i]
""",
}


@pytest.mark.parametrize("name", SAME)
def test_each_kernel_has_the_tensor_expression_of_plain_loops(name: str) -> None:
    plain = lift(program(REVERSED))
    assert lift(program(SAME[name]), plain.params).outputs[0].body is plain.outputs[0].body


REFUSED = {
    "global memory in one kernel": """
    t = T.alloc_buffer((4, 8), "float32")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[b, i] = x[b, i]
            out[b, i] = t[b, 7 - i]
""",
    "one statement that reads what other threads store": """
    t = T.alloc_buffer((9,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[i] = x[b, i]
            t[8] = T.float32(0)
            t[i] = t[i + 1]
            out[b, i] = t[i]
""",
    "under a condition that threads differ in": """
    t = T.alloc_buffer((8,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = T.float32(0)
            if i < 6:
                t[i] = x[b, i]
                out[b, i] = t[5 - i]
""",
    "shared memory of another block": """
    t = T.alloc_buffer((4,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        t[b] = x[b, 0]
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[3 - b]
""",
    "all threads add to one element": """
    t = T.alloc_buffer((1,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        t[0] = T.float32(0)
        for i in T.thread_binding(8, "threadIdx.x"):
            t[0] = t[0] + x[b, i]
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[0]
""",
    "threads store different values": """
    t = T.alloc_buffer((1,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[0] = x[b, i]
        for i in T.thread_binding(8, "threadIdx.x"):
            out[b, i] = t[0]
""",
    "one thread in each iteration": """
    t = T.alloc_buffer((1,), "float32", scope="shared")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            for k in range(8):
                if i == k:
                    t[0] = x[b, k]
            out[b, i] = t[0]
""",
    "a thread's own memory of another thread": """
    t = T.alloc_buffer((8,), "float32", scope="local")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(8, "threadIdx.x"):
            t[i] = x[b, i]
            out[b, i] = t[7 - i]
""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_kernels_whose_threads_conflict_are_refused(name: str) -> None:
    with pytest.raises(Unliftable):
        lift(program(REFUSED[name]))


def test_without_inserted_barriers_shared_memory_is_a_race() -> None:
    func = program(THROUGH_SHARED).without_attr("s_tir")
    with pytest.raises(Unliftable, match="without a barrier"):
        lift(func)


def test_kernels_of_dlight_are_recovered() -> None:
    """Cooperative fetches with padding, reductions over threads, partial sums a thread."""
    for name, wanted in (("matmul", "Matmul"), ("softmax", "GeneralReduction"), ("mean", "")):
        plain = op_info(legal(name))
        forms = [f for rule, f in by_dlight(legal(name)) if "gpu" in rule and wanted in rule]
        assert isinstance(plain, OpInfo) and forms
        for form in forms:
            info = op_info(form)
            assert isinstance(info, OpInfo), info
            assert (info.name, info.operands) == (plain.name, plain.operands)
            assert dict(info.attrs) == dict(plain.attrs)


@pytest.mark.parametrize("name", ["cooperative_fetch", "virtual_threads", "cross_thread"])
def test_scheduled_matrix_products_are_recovered(name: str) -> None:
    s = fresh(legal("matmul"))
    SCHEDULES[name](s)
    info = op_info(s.mod["main"])
    assert isinstance(info, OpInfo) and info.name == "relax.matmul", info


BLOCKS_OWN = """
    for b in T.thread_binding(4, "blockIdx.x"):
        with T.sblock("a"):
            vb = T.axis.spatial(4, b)
            t = T.sblock_alloc_buffer((8,), "float32")
            for i in {loop}:
                t[i] = x[vb, i]
            for i in range(8):
                out[vb, i] = t[7 - i]
"""


def test_what_a_block_allocates_is_its_own() -> None:
    info = op_info(program(BLOCKS_OWN.format(loop="range(8)")))
    assert isinstance(info, OpInfo) and info.name == "relax.flip"
    outside = """
    t = T.alloc_buffer((8,), "float32")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in range(8):
            t[i] = x[b, i]
        for i in range(8):
            out[b, i] = t[7 - i]
"""
    with pytest.raises(Unliftable):
        lift(program(outside))


def test_threads_inside_an_allocation_share_it() -> None:
    """A buffer of scope global that the threads of a block exchange without a barrier."""
    with pytest.raises(Unliftable):
        lift(program(BLOCKS_OWN.format(loop='T.thread_binding(8, "threadIdx.x")')))


#: One element of global memory that the threads of a warp store and load.
THROUGH_GLOBAL = {
    "a flag": ("if i == 0:\n            c[0] = 1", "out[0, i] = x[0, i] * c[0]", "c[0] = 0"),
    "a counter": ("c[0] = c[0] + 1", "out[0, i] = x[0, i] * c[0]", "T.evaluate(0)"),
    "a counter of one thread": (
        "if i == 0:\n            c[0] = c[0] + 1", "out[0, i] = x[0, i] * c[0]", "c[0] = 7"),
    "a counter in a loop": (
        "for k in range(3):\n            out[k, i] = x[0, i] * c[0]\n            c[0] = c[0] + 1",
        "T.evaluate(0)", "T.evaluate(0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", THROUGH_GLOBAL)
def test_a_counter_in_global_memory_needs_a_barrier(name: str) -> None:
    body = "\n".join(f"        {line}" for line in THROUGH_GLOBAL[name])
    func = program(f"""
    c = T.alloc_buffer((1,), "int32")
    c[0] = 0
    for i in T.thread_binding(8, "threadIdx.x"):
{body}
""")
    with pytest.raises(Unliftable, match="without a barrier"):
        lift(func)


def test_what_each_thread_of_a_warp_loads_before_it_stores_it() -> None:
    func = program("""
    c = T.alloc_buffer((1,), "int32")
    c[0] = 3
    for i in T.thread_binding(8, "threadIdx.x"):
        n = T.alloc_buffer((1,), "int32", scope="local")
        n[0] = c[0]
        c[0] = n[0] + 1
        for k in range(4):
            out[k, i] = x[k, i] * n[0]
""")
    lift(func)
