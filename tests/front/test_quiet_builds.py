"""A compile prints none of TVM's warnings about what opinfo has checked, or what says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.analysis.lifting.tir.without_scopes import without_scopes
from opinfo.analysis.proposal.lowering import lower_take
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION

op = relax.op
N = tirx.Var("n", "int64")
#: Shape of the data, of the indices, axis, and dtype of the indices.
TAKES = [
    ((4, 5), (3,), 0, "int64"), ((4, 5, N), (3, 2), -2, "int32"), ((4, 5), (), 1, "int64"),
    ((7,), (3,), None, "int64"), ((N,), (3, N), None, "int32"), ((7,), (), None, "int32"),
    ((7,), (0,), 0, "int64"), ((2, 3, 4), (1, N), 2, "uint8"), ((N + 1, 3), (N * 2,), 0, "int32"),
]  # fmt: skip


def topi_rule(builder: Any, call: Any) -> Any:
    """Lower as TVM's rule does, which is replaced."""
    take, attrs = tvm.topi.take, call.attrs
    return builder.call_te(take, call.args[0], call.args[1], attrs.axis, mode=attrs.mode)


@pytest.mark.parametrize("case", TAKES, ids=str)
def test_the_code_of_take_is_that_of_tvm(case: Any) -> None:
    shape, places, axis, dtype = case
    lowered = []
    for rule in (topi_rule, lower_take.quiet(topi_rule)):
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType(shape, "float32"))
        i = relax.Var("i", relax.TensorType(places, dtype))
        with builder.function("main", [x, i]):
            call = builder.normalize(op.take(x, i, axis))
            builder.emit_func_output(builder.emit(rule(builder, call)))
        lowered.append(builder.get())
    tvm.ir.assert_structural_equal(*lowered)
    assert lowered[0].script() == lowered[1].script()


def test_other_modes_are_those_of_tvm() -> None:
    builder = relax.BlockBuilder()
    x, i = (relax.Var(name, relax.TensorType((4,), dtype))
            for name, dtype in (("x", "float32"), ("i", "int64")))  # fmt: skip
    with builder.function("main", [x, i]):
        builder.emit_func_output(builder.emit(op.take(x, i, 0, mode="clip")))
    text = relax.transform.LegalizeOps()(builder.get()).script()
    assert "T.max" in text and "T.min" in text


@pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
def test_gathers_and_scatters_compile_without_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    builder = relax.BlockBuilder()
    x, u = (
        relax.Var(name, relax.TensorType((n, 3), "float32")) for name, n in (("x", 8), ("u", 2))
    )
    i = relax.Var("i", relax.TensorType((2,), "int64"))
    with builder.function("main", [x, i, u]):
        with builder.dataflow():
            wide = builder.emit(op.broadcast_to(op.expand_dims(i, 1), (2, 3)))
            rows = builder.emit(op.scatter_elements(x, wide, u, 0))
            table = builder.emit(op.scatter_elements(  # folded when it is compiled
                relax.const(np.zeros((8, 3), "float32")), relax.const(np.full((1, 3), 4)),
                relax.const(np.ones((1, 3), "float32")), 0))  # fmt: skip
            total = builder.emit_output(op.add(op.take(rows, i, 0), op.take(table, i, 0)))
        builder.emit_func_output(total)
    compiled = opinfo.compile(builder.get(), [])
    updates = np.arange(6, dtype="float32").reshape(2, 3)
    got = compiled.run(np.zeros((8, 3), "float32"), np.array([6, 4]), updates)
    np.testing.assert_array_equal(got, updates + np.array([[0], [1]]))
    printed = capfd.readouterr()
    assert "Warning" not in printed.err + printed.out


def test_only_scopes_are_dropped_and_the_module_stays() -> None:
    source = tvm.script.from_source("""
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "float32")):
    with T.attr(0, "pragma_scope", "seq"):
        with T.attr(0, "pragma_auto_unroll_max_step", 2):
            with T.attr(0, "pragma_scope", "seq"):
                x[0] = T.float32(1)
""")
    mod = tvm.IRModule({"main": source})
    out = without_scopes(mod)
    assert "pragma_scope" in mod.script() and "pragma_scope" not in out.script()
    assert "pragma_auto_unroll_max_step" in out.script()
    assert without_scopes(out).same_as(out)
