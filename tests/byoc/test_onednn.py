"""oneDNN: what it computes is what TVM computes, and what it refuses it names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend import find
from opinfo.byoc.compile import Compiled, compile_module

from ..layout import nets
from ..layout.nets import const
from ..run import run
from .onednn_cases import CASES, inputs, module


@functools.cache
def compiled() -> Compiled:
    return compile_module(module(), ["onednn"], plan=False)


@functools.cache
def results() -> tuple[list[Any], list[Any]]:
    machine = compiled().machine()
    found = machine["main"](*map(tvm.runtime.tensor, inputs()))
    return run(module(), inputs()), [t.numpy() for t in found]


def test_it_is_installed() -> None:
    assert find("onednn").available() is None


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_tvm(name: str) -> None:
    k = list(CASES).index(name)
    expected, found = (side[k] for side in results())
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_every_case_is_taken_whole() -> None:
    assert [(o.op, o.why) for o in compiled().dispatched.left] == []
    taken = sorted(
        " ".join(o.rpartition(".")[2] for o in t.ops) for t in compiled().dispatched.taken
    )
    assert taken == sorted(c.ops for c in CASES.values())


def test_shapes_at_run_time_have_kernels_of_their_own() -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = nets.net(lambda e, r, x: e(relax.op.matmul(x, const(r, 6, 5))), (n, 6), legal=False)
    machine = compile_module(mod, ["onednn"]).machine()
    for size in (1, 7, 64, 7):
        x = np.random.default_rng(size).standard_normal((size, 6)).astype("float32")
        np.testing.assert_allclose(
            machine["main"](tvm.runtime.tensor(x)).numpy(), run(mod, [x])[0], rtol=1e-4, atol=1e-5
        )
