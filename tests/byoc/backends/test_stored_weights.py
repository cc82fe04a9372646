"""Products with weights of few bits that are parameters: read as they are stored, as numpy's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from .weight_only_cases import (
    BACKENDS,
    PRODUCTS,
    Quantized,
    check_close,
    check_every_product_taken,
    compiled_for,
    module,
)

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
def _compiled(cpu: str) -> CompiledModule:
    return compiled_for(cpu, module({name: FREE[name] for each, name in CASES if each == cpu}))


def _function(cpu: str, name: str) -> Any:
    return _compiled(cpu).machine()[f"f{[n for c, n in CASES if c == cpu].index(name)}"]


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_every_product_is_one_region(cpu: str) -> None:
    check_every_product_taken(_compiled(cpu), sum(c == cpu for c, _ in CASES))


@pytest.mark.parametrize(("cpu", "name"), CASES)
def test_products_equal_those_of_numpy(cpu: str, name: str) -> None:
    product, rng = FREE[name], np.random.default_rng(0)
    function = _function(cpu, name)
    for rows in (0, 1, 7, 130):
        x, z = (rng.standard_normal((rows, n)).astype(product.dtype)
                for n in (product.depth, product.columns))  # fmt: skip
        tensors = map(tvm.runtime.tensor, (x, z, *product.weights.arrays()))
        actual, expected = function(*tensors).numpy(), product.expected(x, z)
        check_close(actual, expected, product.dtype)


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


@T.prim_func(private=True, s_tir=True)
def _inverted(words: T.Buffer((T.int64(20), T.int64(12)), "uint32")) -> None:
    for i, j in T.grid(T.int64(20), T.int64(12)):
        with T.sblock("words"):
            vi, vj = T.axis.remap("SS", [i, j])
            words[vi, vj] = T.bitwise_not(words[vi, vj])


def test_words_that_are_updated_after_their_dequantisation_are_not_read_later() -> None:
    q = Quantized((20, 96), scales="float32")
    types = [relax.TensorType((3, 96), "float32"),
             *(relax.TensorType(a.shape, str(a.dtype)) for a in q.arrays())]  # fmt: skip
    builder = relax.BlockBuilder()
    x, words, scales = (relax.Var(f"p{k}", t) for k, t in enumerate(types))
    gvar = builder.add_func(_inverted, "inverted")
    with builder.function("main", [x, words, scales]):
        with builder.dataflow():
            matrix = builder.emit(group_dequantize(words, scales, **q.attrs()))
            new = builder.emit_output(relax.op.call_tir_inplace(gvar, [words], [0], words.ty))
            moved = builder.emit(relax.op.permute_dims(matrix))
            out = builder.emit_output(relax.op.matmul(x, moved))
        builder.emit_func_output(relax.Tuple([out, new]))
    rows = np.random.default_rng(0).standard_normal((3, 96)).astype("float32")
    before = str(prepare(builder.get(), BACKENDS)["main"])
    assert before.index("group_dequantize") < before.index("call_tir_inplace")
    machine = compile_module(builder.get(), BACKENDS, plan=False).machine()
    got = machine["main"](*map(tvm.runtime.tensor, (rows, *q.arrays())))[0].numpy()
    np.testing.assert_allclose(got, rows @ q.values().T, rtol=1e-4, atol=1e-4)
