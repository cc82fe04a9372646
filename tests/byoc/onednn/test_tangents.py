"""Hyperbolic tangents, and GELUs by them, are loops of our own where the library has slow ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn.implementation_probe import ask, job_of
from opinfo.byoc.codegen.host_target import flags
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .onednn_cases import region_of

nn, op = relax.op.nn, relax.op
#: The library's tangents are fast with AVX-512 alone.
OWN = "avx512f" not in flags()


def _tanh(x: Any) -> Any:
    return np.tanh(x)


def _gelu(x: Any) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


FUNCTIONS = {"tanh": (op.tanh, _tanh), "gelu_tanh": (nn.gelu_tanh, _gelu)}


def _net(build: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    return nets.net(build, *shapes, legal=False)


def _called(mod: Any, *values: Any) -> Any:
    compiled = compile_module(mod, ["onednn"], plan=False)
    assert compiled.dispatched is not None and not compiled.dispatched.left
    return compiled.machine()["main"](*map(tvm.runtime.tensor, values)).numpy()


def _chain(f: Any) -> dict[str, Any]:
    return {
        "product": _net(lambda e, r, x: e(f(e(op.add(e(op.matmul(x, const(r, 9, 37))),
                                                     const(r, 37))))), (5, 9)),
        "between others": _net(lambda e, r, x: e(op.multiply(e(nn.relu(e(f(e(op.add(e(nn.conv2d(
            x, const(r, 8, 4, 3, 3), padding=1)), const(r, 1, 8, 1, 1))))))),
            const(r, 1, 8, 1, 1))), (1, 4, 7, 5)),
        "channels last": _net(lambda e, r, x: e(f(e(nn.conv2d(
            x, const(r, 8, 3, 3, 4), padding=1, data_layout="NHWC", kernel_layout="OHWI")))),
            (2, 7, 5, 4)),
        "twice": _net(lambda e, r, x: e(f(e(f(e(op.matmul(x, const(r, 9, 37))))))), (5, 9)),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_they_follow_products_and_convolutions(name: str) -> None:
    rng = np.random.default_rng(5)
    for which, mod in _chain(FUNCTIONS[name][0]).items():
        answer = ask(f"query 0 {job_of(region_of(mod))}")
        assert answer is not None and ("tangents:own" in answer["steps"]) == OWN, which
        (shape,) = [p.ty.shape for p in mod["main"].params]
        x = rng.standard_normal([int(s) for s in shape]).astype("float32")
        np.testing.assert_allclose(_called(mod, x), run(mod, [x])[0], rtol=2e-5, atol=2e-6,
                                   err_msg=which)  # fmt: skip


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_each_number_is_that_of_the_function(name: str) -> None:
    f, expected = FUNCTIONS[name]
    x = np.concatenate([np.linspace(-12, 12, 40001), np.logspace(-30, 1, 4001),
                        -np.logspace(-30, 1, 4001)]).astype("float32")  # fmt: skip
    found = _called(_net(lambda e, r, v: e(f(v)), x.shape), x)
    # The product of x and 1 + tanh cancels where x is negative: it is a difference of ones.
    error = abs(found - expected(x.astype("float64"))) / np.maximum(abs(found), 1e-30)
    assert error[x > -3].max() < (1e-6 if OWN else 1e-4)
    assert abs(found - expected(x.astype("float64"))).max() < 1e-6


@pytest.mark.skipif(not OWN, reason="the library's own code gives these")
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_limits_and_signs_are_kept(name: str) -> None:
    f, expected = FUNCTIONS[name]
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-30, np.inf, -np.inf, np.nan, 3e38, -3e38, -20.0,
                  -10.04, 88.0], "float32")  # fmt: skip
    found, wanted = (
        _called(_net(lambda e, r, v: e(f(v)), x.shape), x),
        expected(x.astype("float64")),
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-36)
    sure = ~np.isnan(wanted)
    assert (np.signbit(found) == np.signbit(wanted))[sure].all()
