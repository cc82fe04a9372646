"""Chains of elementwise functions compile in time, and round to bfloat16 where they say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.byoc.schedule.nest.inlining.inlined_size import inlined_size

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

op = relax.op


def module(compute: Callable[[Any], Any]) -> tvm.IRModule:
    """Return a module of float32 (n, 6)."""
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(compute(x))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("shapes", [None, "jit", "aot"])
def test_a_long_chain_compiles_in_time(shapes: Any) -> None:
    def chain(x: Any) -> Any:
        for _ in range(3):
            x = op.tanh(op.exp(op.multiply(x, relax.const(0.5, "float32"))))
        return x

    compiled = opinfo.compile(module(chain), [], shapes=shapes)
    x = expected = np.random.default_rng(0).standard_normal((70, 6)).astype("float32")
    for _ in range(3):
        expected = np.tanh(np.exp(expected / 2))
    np.testing.assert_allclose(compiled.run(x), expected, rtol=1e-5)


def test_the_size_counts_values_in_place_of_variables() -> None:
    source = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(8):
        a: T.let[T.float32] = x[i]
        b: T.let[T.float32] = a * a * a
        c: T.let[T.float32] = b + b
        y[i] = c * c
"""
    assert inlined_size(tvm.script.from_source(source).body) == 12  # a is a load, and stays


@pytest.mark.parametrize("shapes", [None, "jit", "aot"])
def test_what_is_cast_to_bfloat16_and_back_is_rounded(shapes: Any) -> None:
    compiled = opinfo.compile(
        module(lambda x: op.astype(op.astype(x, "bfloat16"), "float32")), [], shapes=shapes
    )
    edges = np.array([np.nan, np.inf, -np.inf, 3.4e38, -0.0, 1e-40, 1.00390625, 1.01171875])
    x = np.concatenate([edges, np.random.default_rng(0).standard_normal(64)]).astype("float32")
    x = x.reshape(-1, 6)
    expected = x.astype(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_array_equal(compiled.run(x), expected)
    assert (expected != x).any()


def test_checks_of_indices_get_no_kernels() -> None:
    n = tirx.Var("n", "int64")
    x, i = (relax.Var(name, relax.TensorType((n,), dtype))
            for name, dtype in (("x", "float32"), ("i", "int64")))  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", [x, i]):
        with builder.dataflow():
            doubled = builder.emit(op.multiply(i, relax.const(2, "int64")))
            out = builder.emit_output(op.take(x, doubled, 0))
        builder.emit_func_output(out)
    compiled = opinfo.compile(builder.get(), shapes="jit")
    reasons = {f.function: f.why for f in compiled.functions}
    assert "checks its arguments" in reasons["checked_index"]
    numbers, index = np.arange(4, dtype="float32"), np.array([1, 0, 1, 1])
    with opinfo.Session(compiled) as session:
        for _ in range(3):
            np.testing.assert_array_equal(session(numbers, index).numpy(), numbers[index * 2])
        settled = session.settle()
    assert settled.counts.get("failed", 0) == 0
