"""Products of rows with matrices of their experts on a CPU: equal to numpy's, row by row."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.jit.arguments.acceptor import BoundaryError

from .expert_cases import (
    BACKENDS,
    CASES,
    COLUMNS,
    DEPTH,
    EXPERTS,
    NUMBERS,
    Case,
    Emit,
    M,
    op,
    product,
)

BIAS = np.random.default_rng(4).standard_normal((30, 1, COLUMNS)).astype("float32")


def _followed(emit: Emit, x: Any, w: Any, ids: Any) -> Any:
    y = emit(op.matmul(x, emit(op.take(w, ids, 0, mode="fast"))))
    return op.nn.silu(emit(op.add(y, relax.const(BIAS))))


def _shared(emit: Emit, x: Any, w: Any, ids: Any) -> Any:
    shared = emit(op.reshape(x, (1, 5, DEPTH)))
    return op.matmul(shared, emit(op.take(w, ids, 0, mode="fast")))


def _halved(emit: Emit, x: Any, w: Any, ids: Any, mode: str) -> Any:
    half = emit(op.divide(ids, relax.const(2, "int64")))
    return op.matmul(x, emit(op.take(w, half, 0, mode=mode)))


def _any_length(alone: bool) -> Any:
    """No type says that the activations are as long as the matrices."""
    k = tvm.tirx.Var("k", "int64")
    matrices = np.ones((EXPERTS, 8, 6) if alone else (EXPERTS, 6, 8), "float32")
    x = relax.Var("x", relax.TensorType((M, k, 1) if alone else (M, 1, k), "float32"))
    ids = relax.Var("ids", relax.TensorType((M,), "int64"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, ids]):
        with bb.dataflow():
            w = bb.emit(op.take(relax.const(matrices), ids, 0, mode="fast"))
            y = bb.emit_output(op.matmul(w, x) if alone else op.matmul(x, w))
        bb.emit_func_output(y)
    return bb.get()


def _others() -> dict[str, Any]:
    """Modules of one function that each test calls one of."""
    return {
        "followed": product(_followed, 30),
        "shared": product(_shared, 5),
        "clip": product(partial(_halved, mode="clip")),
        "fast": product(partial(_halved, mode="fast")),
        "alone": _any_length(True),
        "in_rows": _any_length(False),
    }


@pytest.fixture(scope="module")
def compiled() -> Any:
    """One library of all cases and other functions: g++ compiles what all need once."""
    several = {**{c.name: c.module() for c in CASES}, **_others()}
    functions = {name: mod["main"].with_attr("global_symbol", name)
                 for name, mod in several.items()}  # fmt: skip
    return opinfo.compile(tvm.IRModule(functions), BACKENDS)


def test_each_product_is_taken(compiled: Any) -> None:
    taken = [r.backend for r in compiled.dispatched.taken]
    assert taken == ["experts"] * (len(CASES) + len(_others())), compiled.report()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_rows_are_multiplied_with_the_matrices_of_their_experts(case: Case, compiled: Any) -> None:
    matrices = case.values()
    for ids in NUMBERS:
        x, numbers = case.inputs(ids)
        free = () if case.bound else case.matrices()
        got = np.asarray(compiled.run(x, numbers, *free, function=case.name), float)
        expected = np.zeros((len(ids), case.columns))
        for row, (values, expert) in enumerate(zip(x.astype(float), ids, strict=True)):
            expected[row] = values @ matrices[expert]
        bound = 1e-3 if case.dtype == "float16" else 2e-6
        scale = max(1.0, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(got, expected, 0, bound * scale)


def test_what_follows_is_computed_beside_the_rows_of_the_result(compiled: Any) -> None:
    assert [len(r.ops) for r in compiled.dispatched.taken if "relax.nn.silu" in r.ops] == [4]
    case, ids = CASES[0], [3, 1, 3] * 10
    x, numbers = case.inputs(ids)
    y = np.einsum("rk,rkn->rn", x, case.values()[ids]) + BIAS[:, 0]
    got = compiled.run(x[:, None], numbers, function="followed")
    np.testing.assert_allclose(got[:, 0], y / (1 + np.exp(-y)), 1e-4, 1e-4)


def test_several_rows_have_one_number(compiled: Any) -> None:
    """One tensor of 5 rows is multiplied with the matrix of each number."""
    x, numbers = CASES[0].inputs([2, 0, 2, 1, 2])
    expected = x.astype(float) @ CASES[0].values()[numbers]
    got = compiled.run(x[:, None], numbers, function="shared")
    np.testing.assert_allclose(got, expected, 0, 1e-4)


def test_numbers_outside_of_the_experts_are_clipped_or_an_error(compiled: Any) -> None:
    x, numbers = CASES[0].inputs([-2, 4, 8])
    with pytest.raises(ValueError, match="outside of its axis"):
        compiled.run(x[:, None], numbers, function="fast")
    expected = np.einsum("rk,rkn->rn", x.astype(float), CASES[0].values()[[0, 2, 3]])
    got = compiled.run(x[:, None], numbers, function="clip")
    np.testing.assert_allclose(got[:, 0], expected, 0, 1e-4)


@pytest.mark.parametrize("name", ["in_rows", "alone"])
def test_rows_of_another_length_are_an_error(name: str, compiled: Any) -> None:
    numbers = np.array([0, 3])
    for length in (6, 0, 3, 12):
        rows = np.ones((2, length, 1) if name == "alone" else (2, 1, length), "float32")
        if length == 6:
            got = compiled.run(rows, numbers, function=name)
            np.testing.assert_array_equal(np.asarray(got).ravel(), 6)
            continue
        with pytest.raises(BoundaryError, match=f"got k = {length}; .* only defined for k == 6"):
            compiled.run(rows, numbers, function=name)
