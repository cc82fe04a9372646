"""A decoder whose caches a session keeps: default backends are raced with TVM's code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.verify import timing_process

WIDTH, WORDS = 64, 256
RNG = np.random.default_rng(0)
IN, OUT = (RNG.standard_normal(s).astype("float32") / 8 for s in ((WIDTH, WIDTH), (WIDTH, WORDS)))


def decoder() -> Any:
    """The sum of all rows so far, through two products, and the rows."""
    n, p = tirx.Var("n", "int64"), tirx.Var("p", "int64")
    new = relax.Var("new", relax.TensorType((n, WIDTH), "float32"))
    past = relax.Var("past", relax.TensorType((p, WIDTH), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [new, past]):
        with bb.dataflow():
            rows = bb.emit(relax.op.matmul(new, relax.const(IN)))
            both = bb.emit_output(relax.op.concat([past, rows], 0))
            total = bb.emit(relax.op.sum(both, [0], keepdims=True))
            out = bb.emit_output(relax.op.matmul(total, relax.const(OUT)))
            results = bb.emit_output(relax.Tuple([out, both]))
        bb.emit_func_output(results)
    return opinfo.transform.AppendToCaches()(bb.get())


@pytest.mark.parametrize("race", [True, False])
def test_default_backends_are_raced_with_the_code_of_tvm(race: bool) -> None:
    compiled = opinfo.compile(decoder(), shapes="generic", race=race)
    message = "n=1, capacity=256, p=128 and n=64, capacity=256, p=0"
    assert (message in compiled.kept) == race == ("of TVM's code" in compiled.kept)
    assert (compiled.kept in compiled.report()) and ("by expected costs" in compiled.kept) == race
    rows = RNG.standard_normal((70, WIDTH)).astype("float32")
    with opinfo.Session(compiled) as session:
        state = session.start(rows[:64])
        for k in range(64, 70):
            state.step(rows[k : k + 1])
        expected = (rows.astype("float64") @ IN).sum(0, keepdims=True) @ OUT
        np.testing.assert_allclose(state.result.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_kernels_of_the_shapes_are_there_when_builds_are_timed() -> None:
    """Else a build with `jit` would be timed with its generic kernels."""
    compiled = opinfo.compile(decoder(), [], shapes="jit")
    calls: list[int] = []
    module = tvm.runtime.load_module(str(compiled.library))
    timing_process._served(str(compiled.library), module, [lambda: calls.append(1), None])
    session = timing_process._SESSIONS.pop(str(compiled.library))
    session.close()
    assert len(calls) == timing_process.KERNELS > 2
    static = opinfo.compile(decoder(), [])
    module = tvm.runtime.load_module(str(static.library))
    timing_process._served(str(static.library), module, [lambda: calls.append(1)])
    assert (
        str(static.library) not in timing_process._SESSIONS and len(calls) == timing_process.KERNELS
    )
