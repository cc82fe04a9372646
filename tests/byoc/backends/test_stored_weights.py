"""Products with weights of few bits that are parameters: read as they are stored, as numpy's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.codegen.host_target import VARIABLE, native_target
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from .weight_only_cases import BACKENDS, PRODUCTS, module

REFUSED = {
    "int8 words": "the words are int8",
    "int8": "the words are int8",
    "zero points": "the zero points are uint8",
    "packed zero points": "the words are interleaved",
}
FREE = {name: replace(p, free=True) for name, p in PRODUCTS.items() if name not in REFUSED}
#: What is also compiled for CPUs without AVX-512.
SOME = ("2 bits", "3 bits, partial words", "4 bits by rows", "float zero points", "float16")
CASES = [("", name) for name in FREE] + [("haswell", name) for name in SOME]


@cache
def _compiled(cpu: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, cpu)
        chosen = {name: FREE[name] for each, name in CASES if each == cpu}
        return compile_module(module(chosen), BACKENDS, target=native_target())


def _function(cpu: str, name: str) -> Any:
    return _compiled(cpu).machine()[f"f{[n for c, n in CASES if c == cpu].index(name)}"]


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_every_product_is_one_region(cpu: str) -> None:
    dispatched = _compiled(cpu).dispatched
    assert [r.backend for r in dispatched.taken] == ["weight_only"] * sum(
        c == cpu for c, _ in CASES
    )
    assert not dispatched.left and not dispatched.failed


@pytest.mark.parametrize(("cpu", "name"), CASES)
def test_values(cpu: str, name: str) -> None:
    product, rng = FREE[name], np.random.default_rng(0)
    function = _function(cpu, name)
    for rows in (0, 1, 7, 130):
        x, z = (rng.standard_normal((rows, n)).astype(product.dtype)
                for n in (product.depth, product.columns))  # fmt: skip
        tensors = map(tvm.runtime.tensor, (x, z, *product.weights.arrays()))
        actual, expected = function(*tensors).numpy(), product.expected(x, z)
        assert actual.shape == expected.shape
        exact = actual.dtype == np.float32 and product.dtype == "float32"
        largest = max(1, abs(expected).max(initial=0))
        assert abs(actual - expected).max(initial=0) <= (2e-6 if exact else 2e-3) * largest


@pytest.mark.parametrize("name", REFUSED)
def test_other_words_stay(name: str) -> None:
    product = replace(PRODUCTS[name], free=True)
    done = dispatch(prepare(module({name: product}), BACKENDS), BACKENDS)
    assert not done.taken
    assert any(REFUSED[name] in left.why and "BindParams" in left.suggestion for left in done.left)


@pytest.mark.parametrize("where", ["rows", "scales"])
def test_numbers_that_are_not_finite_or_very_large(where: str) -> None:
    name, rng = "float32 scales", np.random.default_rng(1)
    product = FREE[name]
    function = _function("", name)
    words, scales = product.weights.arrays()
    x = rng.standard_normal((5, product.depth)).astype("float32")
    (x if where == "rows" else scales)[1, 1:3] = np.inf, -np.inf
    (x if where == "rows" else scales)[2, 0] = np.nan
    x[3, 0] = 3e38
    digits = (product.weights.values() / product.weights.arrays()[1].repeat(32, 1)).round()
    with np.errstate(invalid="ignore", over="ignore"):
        matrix = digits.astype("float32") * scales.repeat(32, 1)
        expected = np.array([[(row * column).sum() for column in matrix] for row in x])
    actual = function(*map(tvm.runtime.tensor, (x, x[:, : product.columns].copy(), words, scales)))
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-4, atol=1e-4)
