"""Programs that once got, or could get, a wrong answer: each is answered rightly or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.byoc.prepare.raising.raise_ops import raise_ops

from ...common.interpret import interpret
from ...common.mutation import answer, same

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"

#: One float input of 8 elements, one output of 8; what the interpreter says is the truth.
PROGRAMS = {
    "a condition on a value that is overwritten before it": """
    t = T.alloc_buffer((8,), "float32")
    s = T.alloc_buffer((1,), "float32")
    for i in range(8):
        t[i] = x[i]
        out[i] = x[i]
    for i in range(8):
        s[0] = t[i]
        t[i] = T.float32(0)
        if s[0] < T.float32(0):
            out[i] = T.float32(0)
""",
    "a loop that starts at a value that has changed": """
    p = T.alloc_buffer((8,), "int32")
    for i in range(8):
        p[i] = i
    for i in range(8):
        p[i] = 7 - p[i]
        for j in range(p[i], p[i] + 1):
            out[i] = x[j]
""",
    "a binding used in a loop after a store": """
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        t[i] = x[i]
    for i in range(8):
        v: T.let[T.float32] = t[i]
        t[i] = T.float32(0)
        for j in range(1):
            out[i] = v
""",
    "a guard that pins a loop beyond its range": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in range(8):
        for i in range(4):
            if i == j:
                out[j] = x[j]
""",
    "a guard that reads what the loop adds to": """
    for i in range(8):
        out[i] = T.float32(0)
        for k in range(8):
            if out[i] < T.float32(1):
                out[i] = out[i] + x[k]
""",
    "an update in one iteration only": """
    for i in range(8):
        out[i] = T.float32(0)
    for i in range(8):
        for k in range(8):
            if k == 3:
                out[i] = out[i] + x[k]
""",
    "a binding outside a loop that changes what it was read from": """
    for j in range(8):
        out[j] = T.float32(0)
    for j in range(8):
        v: T.let[T.float32] = out[j]
        for i in range(8):
            out[j] = v + x[i]
""",
    "a place that the loop finds as it goes": """
    n = T.alloc_buffer((1,), "int32")
    n[0] = 0
    for i in range(8):
        out[i] = T.float32(0)
    for i in range(8):
        if x[i] > T.float32(0):
            out[n[0]] = x[i]
            n[0] = n[0] + 1
""",
    "a scan that starts at the second element": """
    for i in range(8):
        out[i] = x[i]
    for i in range(1, 7):
        out[i + 1] = out[i] + x[i + 1]
""",
    "an exclusive scan shifted by two": """
    out[0] = T.float32(0)
    out[1] = T.float32(0)
    for i in range(6):
        out[i + 2] = out[i + 1] + x[i]
""",
    "a scan from the other end": """
    out[7] = x[7]
    for i in range(7):
        out[6 - i] = out[7 - i] + x[6 - i]
""",
    "a scan of what it overwrites": """
    for i in range(8):
        out[i] = x[i]
    for i in range(7):
        out[i + 1] = out[i] + out[i + 1] * x[i + 1]
""",
    "a running sum that is reset": """
    s = T.alloc_buffer((1,), "float32")
    s[0] = T.float32(0)
    for i in range(8):
        s[0] = s[0] + x[i]
        out[i] = s[0]
        if i == 4:
            s[0] = T.float32(0)
""",
    "a reset in a later iteration": """
    for i in range(8):
        out[i] = T.float32(0)
        for k in range(8):
            if k == 2:
                out[i] = T.float32(0)
            out[i] = out[i] + x[k]
""",
}


def program(body: str) -> Any:
    head = 'def main(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):\n'
    return tvm.script.from_source(HEADER + head + body.lstrip("\n"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_or_refused(name: str) -> None:
    func = program(PROGRAMS[name])
    value = np.linspace(-2.0, 1.5, 8)
    expected = interpret(func, [value])
    info = op_info(func)
    if isinstance(info, OpInfo):
        assert same(expected, answer(func, info, [value])), info


REFUSED = {
    "parallel iterations": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.vectorized(8):
        t[0] = x[i]
        out[i] = t[0]
""",
    "different extents": """
    for i in T.thread_binding(8, "threadIdx.x"):
        for j in T.thread_binding(4, "threadIdx.x"):
            out[j] = x[j]
""",
    "writes no element of a parameter": """
    for i in T.thread_binding(8, "threadIdx.x"):
        for j in T.thread_binding(8, "threadIdx.x"):
            if i != j:
                out[j] = x[j]
""",
    "threads store to the same": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in T.thread_binding(8, "threadIdx.x"):
        out[0] = out[0] * T.float32(0.5) + x[j]
""",
    "to the same element": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in T.thread_binding(8, "threadIdx.x"):
        out[0] = x[j]
""",
    "read before it is written": """
    t = T.alloc_buffer((8,), "float32", scope="shared")
    for i in T.thread_binding(8, "blockIdx.x"):
        t[i] = x[i]
    for i in T.thread_binding(8, "blockIdx.x"):
        out[i] = t[7 - i]
""",
    "before it is written": """
    t = T.alloc_buffer((8,), "float32", scope="local")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i] = x[i]
    for i in T.thread_binding(8, "threadIdx.x"):
        out[i] = t[7 - i]
""",
    "two or more iterations before": """
    a = T.alloc_buffer((11,), "float32")
    for m in range(11):
        a[m] = x[m % 8]
    for k in range(8):
        for j in range(3):
            if j == 0:
                out[k] = T.float32(-3.4028234663852886e38)
            out[k] = T.max(out[k], a[j + k + 1])
            a[j + k] = T.float32(0)
""",
    "a buffer local to a thread": """
    t = T.alloc_buffer((1,), "float32", scope="local")
    t[0] = T.float32(1)
    for i in T.thread_binding(8, "vthread.x"):
        t[0] = x[i]
    for i in range(8):
        out[i] = t[0]
""",
    "local to a thread is read": """
    t = T.alloc_buffer((1,), "float32", scope="shared")
    t[0] = T.float32(1)
    for i in T.thread_binding(8, "blockIdx.x"):
        t[0] = x[i]
    for i in range(8):
        out[i] = t[0]
""",
    "without a barrier": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i + 1] = x[i]
        t[i] = T.float32(2)
    for i in range(8):
        out[i] = t[i]
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    info = op_info(program(REFUSED[reason]))
    assert isinstance(info, Refusal) and reason in info.reason, info


def test_loops_that_may_not_run() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((8,), "float32"), flag: T.Buffer((1,), "int32"),
         out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = T.float32(0)
        for k in range(flag[0]):
            out[i] = T.exp(x[i])
"""
    )
    assert isinstance(op_info(func), Refusal)


def test_narrowing_unsigned_integers_is_not_taken_for_widening() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((8,), "uint32"), out: T.Buffer((8,), "int64")):
    for i in range(8):
        out[i] = T.Cast("int64", T.Cast("int32", x[i]))
"""
    )
    assert isinstance(op_info(func), Refusal)


def test_a_pointer_parameter_is_refused() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((8,), "float32"), p: T.handle, out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = T.exp(x[i])
"""
    )
    info = op_info(func)
    assert isinstance(info, Refusal) and "neither a buffer nor a scalar" in info.reason


@pytest.mark.parametrize("stages", [12, 40])
def test_shared_terms_are_not_written_out(stages: int) -> None:
    body = "".join(f"    t{k} = T.alloc_buffer((8,), 'float32')\n" for k in range(stages))
    last = "x"
    for k in range(stages):
        body += f"    for i in range(8):\n        t{k}[i] = {last}[i] + {last}[i] * {last}[7 - i]\n"
        last = f"t{k}"
    info = op_info(program(body + f"    for i in range(8):\n        out[i] = {last}[i]\n"))
    assert isinstance(info, Refusal) and len(repr(info)) < 1000


@I.ir_module
class WritesInput:
    @T.prim_func(private=True, s_tir=True)
    def f(
        x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")
    ) -> None:
        for i in range(8):
            y[i] = T.exp(x[i])
            out[i] = T.exp(x[i])

    @R.function
    def main(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")) -> R.Tensor(
        (8,), "float32"
    ):
        cls = WritesInput
        with R.dataflow():
            a = R.call_tir(cls.f, (x, y), out_ty=R.Tensor((8,), "float32"))
            R.output(a)
        return a


def test_a_prim_func_that_writes_an_input_is_not_raised() -> None:
    assert not raise_ops(WritesInput).raised


def test_a_scalar_that_is_not_an_extent_may_be_zero() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((T.int64(8), T.int64(1)), "float32"), n: T.int64, o: T.handle):
    out = T.match_buffer(o, (T.int64(8), n + T.int64(2)), "float32")
    for i, j in T.grid(T.int64(8), n + T.int64(2)):
        out[i, j] = T.if_then_else(n > T.int64(0), x[i, T.int64(0)], T.float32(0))
"""
    )
    info = op_info(func)
    assert not isinstance(info, OpInfo) or info.name != "relax.broadcast_to"


#: The data of a 1x1-strided convolution in odd layouts: how it is read, and the layout it has.
DATA_LAYOUTS = {
    "4cNCHW": ("(4, 1, 2, 6, 6)", "c % 4, n, c // 4, h + p, w + q"),
    "N4cCHW": ("(1, 4, 2, 6, 6)", "n, c % 4, c // 4, h + p, w + q"),
    "NHW4cC": ("(1, 6, 6, 4, 2)", "n, h + p, w + q, c % 4, c // 4"),
    "NCHW2c2c": ("(1, 2, 6, 6, 2, 2)", "n, c // 4, h + p, w + q, c // 2 % 2, c % 2"),
}


@pytest.mark.parametrize("layout", DATA_LAYOUTS)
def test_odd_packings_are_named_rightly_or_refused(layout: str) -> None:
    shape, index = DATA_LAYOUTS[layout]
    func = tvm.script.from_source(
        HEADER
        + f"""def main(x: T.Buffer({shape}, "float32"), k: T.Buffer((5, 8, 3, 3), "float32"),
         out: T.Buffer((1, 5, 4, 4), "float32")):
    for n, o, h, w in T.grid(1, 5, 4, 4):
        out[n, o, h, w] = T.float32(0)
        for c, p, q in T.grid(8, 3, 3):
            out[n, o, h, w] = out[n, o, h, w] + x[{index}] * k[o, c, p, q]
"""
    )
    info = op_info(func)
    if isinstance(info, OpInfo):
        assert (info.name, info.layouts) == ("relax.nn.conv2d", (layout, "OIHW", "NCHW"))


def test_padding_is_assumed_in_the_certificate() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((2, 6), "float32"), out: T.Buffer((2, 2, 4), "float32")):
    for n, o, b in T.grid(2, 2, 4):
        out[n, o, b] = T.if_then_else(o * 4 + b < 6, T.exp(x[n, o * 4 + b]), T.float32(7))
"""
    )
    info = op_info(func)
    if isinstance(info, OpInfo):
        assert not info.certificate.exact
        assert "those from 6 are 7.0" in info.certificate.assumptions[-1]


def test_random_points_have_negative_integers() -> None:
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((8,), "int32"), out: T.Buffer((8,), "int32")):
    for i in range(8):
        out[i] = T.if_then_else(x[i] < -1, 0, x[i])
"""
    )
    assert isinstance(op_info(func, tested=True), Refusal)


def test_a_product_over_one_element_is_not_a_matmul() -> None:
    """The roles of a matrix product were looked for in a scalar's index."""
    func = tvm.script.from_source(
        HEADER
        + """def main(x: T.Buffer((3, 1), "float16"), y: T.Buffer((1,), "float16"),
         out: T.Buffer((3,), "float16")):
    for i in range(3):
        out[i] = T.float16(-0.0)
    for k, i in T.grid(1, 3):
        out[i] = y[k] * x[i, k] + out[i]
"""
    )
    info = op_info(func)
    assert isinstance(info, Refusal) or info.name != "relax.matmul", info
