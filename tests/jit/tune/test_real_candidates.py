"""Candidates that are built: they are checked against the generic kernel, and timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.measure import Excluded, Measure, Measured
from opinfo.jit.tune import timing as measuring
from opinfo.jit.tune import tune as tuning
from opinfo.jit.tune.record import Recording
from opinfo.jit.tune.schedule_database import (
    isolated,
    tuned,
)
from opinfo.jit.tune.schedule_search import buffers
from opinfo.jit.tune.tune import tasks, tune

from ..kernels import product
from .tuning_bench import LLVM


@pytest.fixture(scope="module")
def real() -> Iterator[measuring.KernelBench]:
    """Processes and a server of this machine."""
    with measuring.KernelBench(Measure(servers=1, timeout=20)) as started:
        yield started


@pytest.mark.slow
def test_real_candidates_are_built_checked_and_timed(
    tmp_path: Path, real: measuring.KernelBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found computes the same; that it is fast, benchmarks say."""
    monkeypatch.setattr(tuning, "KernelBench", lambda _: nullcontext(real))
    kept = Recording()
    kept.define("f", tvm.ir.save_json(product(None, 128, 128)))
    kept.add("site", "f", {"n": 16})
    todo = tasks(kept)
    (found,) = tune(todo, tmp_path, trials=4)
    assert found.trials == 4 and found.failed == ()
    assert found.microseconds is not None and found.structure is not None
    got = tuned(tmp_path, todo[0].func, LLVM)
    assert got is not None
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((16, 128), "float32"), rng.standard_normal((128, 128), "float32")
    for func in (todo[0].func, got):
        run = tvm.tirx.build(func, target=LLVM)
        out = tvm.runtime.tensor(np.zeros((16, 128), "float32"))
        args = [tvm.runtime.tensor(x), tvm.runtime.tensor(w), out]
        run["kernel"](*args)
        np.testing.assert_allclose(out.numpy(), np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


WRONG = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((T.int64(4), T.int64(16)), "float32"),
         w: T.Buffer((T.int64(16), T.int64(16)), "float32"),
         y: T.Buffer((T.int64(4), T.int64(16)), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(4, 16):
        BODY
"""


@pytest.mark.slow
def test_real_candidates_that_are_wrong_crash_or_do_not_build(real: measuring.KernelBench) -> None:
    func = isolated(bind(product(None, 16, 16), {"n": 4}))
    bodies = ["y[i, j] = x[i, j]", 'y[i, j] = T.call_packed("no_such_function", i)',
              "y[i, j] = x[i * 10000000, j]"]  # fmt: skip
    mods = [tvm.IRModule({"main": tvm.script.from_source(WRONG.replace("BODY", b), {"T": T})})
            for b in bodies]  # fmt: skip
    case = real.case(tvm.IRModule({"main": func}), buffers(func))
    assert isinstance(case, Path)
    wrong, fails, crashes, good = real.measure([*mods, tvm.IRModule({"main": func})], LLVM, case)
    assert isinstance(wrong, Excluded) and "its result is wrong" in wrong.reason
    assert isinstance(fails, Excluded) and "no_such_function" in fails.reason
    assert crashes == Excluded("it crashes: the server's session ended when it was called")
    assert isinstance(good, Measured) and 0 < good.microseconds < 1e6
