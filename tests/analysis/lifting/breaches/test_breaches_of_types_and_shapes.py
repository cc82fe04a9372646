"""Programs of other types, shapes and parameters that once got, or could get, a wrong answer."""

from __future__ import annotations

import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.byoc.prepare.raising.raise_ops import raise_ops

from .breach_programs import HEADER


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
