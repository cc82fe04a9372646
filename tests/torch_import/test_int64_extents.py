# mypy: disable-error-code="no-untyped-def"
"""Hand-written PrimFuncs, whose extents are int32, next to operators."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import opinfo
from opinfo.front import fused
from opinfo.front.prim_funcs import LegalizeError


@I.ir_module(s_tir=True)
class Static:
    @T.prim_func(private=True, s_tir=True)
    def k(p: T.Buffer((8, 8), "float32"), q: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("z"):
                v, w = T.axis.remap("SS", [i, j])
                q[v, w] = T.exp(p[v, 7 - w]) * p[v, w] - T.cos(p[v, w])

    @R.function
    def main(x: R.Tensor((8, 8), "float32")):
        cls = Static
        with R.dataflow():
            c = R.call_tir(cls.k, (x,), out_ty=R.Tensor((8, 8), "float32"))
            d = R.nn.relu(c)
            R.output(d)
        return d


@I.ir_module(s_tir=True)
class Symbolic:
    @T.prim_func(private=True, s_tir=True)
    def k(p: T.handle, q: T.handle):
        n = T.int64()
        a = T.match_buffer(p, (n, 8), "float32")
        b = T.match_buffer(q, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.sblock("z"):
                v, w = T.axis.remap("SS", [i, j])
                b[v, w] = T.exp(a[v, 7 - w]) * a[v, w] - T.cos(a[v, w])

    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        n = T.int64()
        cls = Symbolic
        with R.dataflow():
            c = R.call_tir(cls.k, (x,), out_ty=R.Tensor((n, 8), "float32"))
            d = R.nn.relu(c)
            R.output(d)
        return d


@pytest.mark.parametrize("mod", [Static, Symbolic], ids=["static", "symbolic"])
def test_a_hand_written_function_is_fused_with_an_operator(mod: tvm.IRModule) -> None:
    text = mod.script()
    (row,) = opinfo.inspect(mod, fused=True).rows
    assert row.func == "fused_k_relu"
    x = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
    shapes = "generic" if mod is Symbolic else None
    got = opinfo.compile(mod, [], shapes=shapes).run(x)
    expected = np.maximum(np.exp(x[:, ::-1]) * x - np.cos(x), 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert mod.script() == text


def test_what_tvm_cannot_fuse_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "int64_extents", lambda mod: mod)
    with pytest.raises(LegalizeError, match=r"^TVM cannot fuse the model: .*buffers q"):
        opinfo.inspect(Static, fused=True)
