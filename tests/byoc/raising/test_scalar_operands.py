"""Calls with scalars: what takes them stays, and computes the same after planning and building."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

import opinfo
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.layout.plan import plan_layout

from ...common.run import run

X = np.linspace(-1, 1, 2 * 8 * 6 * 6, dtype="float32").reshape(2, 8, 6, 6)


@T.prim_func(private=True, s_tir=True)
def scale(
    x: T.Buffer((2, 8, 6, 6), "float32"), a: T.float32, out: T.Buffer((2, 8, 6, 6), "float32")
) -> None:
    for i0, i1, i2, i3 in T.grid(2, 8, 6, 6):
        with T.sblock("scale"):
            v0, v1, v2, v3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
            out[v0, v1, v2, v3] = x[v0, v1, v2, v3] * a


@T.prim_func(private=True, s_tir=True)
def fill(a: T.int64, out: T.Buffer((4, 8), "int64")) -> None:
    for i, j in T.grid(4, 8):
        with T.sblock("fill"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = a


def _module(conv: bool) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(X.shape, "float32"))
    n = tirx.Var("n", "int64")
    weight = relax.const(np.ones((8, 8, 1, 1), "float32"))
    with builder.function("main", [x, relax.Var("s", relax.ShapeType([n]))]):
        with builder.dataflow():
            y: Any = builder.emit(relax.op.nn.conv2d(x, weight)) if conv else x
            factor = tirx.FloatImm("float32", 2.5)
            scaled = relax.call_tir(
                builder.add_func(scale, "scale"), [y, factor], relax.TensorType(X.shape, "float32")
            )
            y = builder.emit(scaled)
            y = builder.emit(relax.op.nn.conv2d(y, weight)) if conv else y
            filled = relax.call_tir(
                builder.add_func(fill, "fill"), [n], relax.TensorType((4, 8), "int64")
            )
            out = builder.emit_output(relax.Tuple([y, builder.emit(filled)]))
        builder.emit_func_output(out)
    return builder.get()


def test_a_call_with_a_scalar_operand_is_not_raised() -> None:
    raised = raise_ops(_module(conv=False))
    assert not raised.raised
    assert [k.reason for k in raised.kept] == [
        "not recognised: an operand of relax.multiply is a scalar parameter, not a tensor (a)",
        "not recognised: an operand of relax.full is a scalar parameter, not a tensor (a)",
    ]


def test_backends_see_no_operator_with_a_scalar_operand() -> None:
    infos = read(_module(conv=False), "test").infos.values()
    assert not any(i.info for i in infos)


@pytest.mark.parametrize("backend", ["onednn", "onnxruntime", "tvm"])
def test_a_module_with_scalars_builds_and_is_right(backend: str) -> None:
    model = opinfo.compile(_module(conv=True), backends=[backend])
    y, filled = model.run(X, (7,))
    once = np.broadcast_to(X.sum(1, keepdims=True), X.shape) * np.float32(2.5)
    np.testing.assert_allclose(y, np.broadcast_to(once.sum(1, keepdims=True), X.shape), rtol=1e-4)
    np.testing.assert_array_equal(filled, np.full((4, 8), 7))


def test_a_layout_goes_through_a_function_with_a_scalar() -> None:
    legal = relax.transform.LegalizeOps()(_module(conv=True))
    plan = plan_layout(legal, {"relax.nn.conv2d": ["NHWC", "OHWI", "NHWC"]})
    assert "scale" in str(plan.report)
    values = [X, tvm.runtime.ShapeTuple([3])]
    before, after = (run(mod, values) for mod in (legal, plan.module))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5)
    np.testing.assert_array_equal(after[1], before[1])
