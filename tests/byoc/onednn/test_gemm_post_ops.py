"""What follows a convolution by products of matrices is apart: in it, oneDNN has scalar code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn.implementation_probe import ask, job_of
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .onednn_cases import region_of

nn, op = relax.op.nn, relax.op
GEMM = "only straight implementation 1 x64:gemm:jit"


def _scaled(e: Any, r: Any, y: Any) -> Any:
    return e(nn.silu(e(op.multiply(y, const(r, 1, 24, 1, 1)))))


AFTER = {
    "relu": lambda e, r, y: e(nn.relu(y)),
    "gelu": lambda e, r, y: e(nn.gelu(y)),
    "factor and silu": _scaled,
}


def _first(after: Callable[..., Any], window: int) -> Any:
    """A convolution with channels before pixels, and what follows it."""

    def build(e: Any, r: Any, x: Any) -> Any:
        return after(e, r, e(nn.conv2d(x, const(r, 24, 16, window, window), padding=window // 2)))

    return nets.net(build, (1, 16, 20, 20), legal=False)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("name", list(AFTER))
def test_products_of_matrices_do_nothing_besides(name: str, window: int) -> None:
    job = job_of(region_of(_first(AFTER[name], window)))
    alone = job_of(region_of(_first(lambda e, r, y: y, window)))
    answer, single = ask(f"query 0 {job} {GEMM}"), ask(f"query 0 {alone} {GEMM}")
    assert single == {"steps": ["x64:gemm:jit"]}
    assert answer is not None and answer["steps"][0] == "x64:gemm:jit"
    assert len(answer["steps"]) > 1


@pytest.mark.parametrize("name", list(AFTER))
def test_the_steps_compute_the_same(name: str) -> None:
    mod = _first(AFTER[name], 1)
    x = np.random.default_rng(3).standard_normal((1, 16, 20, 20)).astype("float32")
    found = compile_module(mod, ["onednn"], plan=False).machine()["main"](tvm.runtime.tensor(x))
    np.testing.assert_allclose(found.numpy(), run(mod, [x])[0], rtol=1e-5, atol=1e-5)
