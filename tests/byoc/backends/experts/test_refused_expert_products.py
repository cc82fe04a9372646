"""Products with experts that the backend leaves to TVM, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax

import opinfo
from opinfo.analysis.composites.grouped import group_dequantize

from .expert_cases import (
    BACKENDS,
    CASES,
    DEPTH,
    Case,
    Emit,
    by_rows,
    op,
    product,
)


def _taken(build: Callable[..., Any]) -> Any:
    return opinfo.dispatch(product(build, 4), BACKENDS)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda emit, x, w, ids: op.matmul(
            x, emit(op.take(w, emit(op.reshape(ids, (4, 1))), 0, mode="fast"))),
         "more axes than one of rows"),
        (lambda emit, x, w, ids: op.matmul(x, emit(op.take(w, ids, 0, mode="wrap"))),
         "with mode wrap, expected axis 0 with fast or clip"),
        (lambda emit, x, w, ids: op.matmul(
            emit(op.reshape(x, (1, DEPTH, 4))),
            emit(op.permute_dims(emit(op.take(w, ids, 0, mode="fast")), (1, 0, 2)))),
         "the gather is along axis 1"),
        (lambda emit, x, w, ids: op.matmul(
            emit(op.permute_dims(emit(op.take(w, ids, 0, mode="fast")), (0, 2, 1))),
            emit(op.broadcast_to(emit(op.reshape(x, (4, DEPTH, 1))), (4, DEPTH, 2)))),
         "each matrix multiplies several columns"),
        (lambda emit, x, w, ids: op.einsum(
            (emit(op.reshape(x, (4, DEPTH))), emit(op.take(w, ids, 0, mode="fast"))), "uk,rkn->rn"),
         "are not of rows and matrices"),
    ],
    ids=["indices of rank 2", "wrap", "permuted", "columns", "sum over rows"],
)  # fmt: skip
def test_other_products_stay(build: Callable[..., Any], reason: str) -> None:
    done = _taken(build)
    assert not done.taken
    assert any(reason in str(left) for left in done.left), done.left


def test_words_and_scales_of_different_experts_stay() -> None:
    case = next(c for c in CASES if c.name == "four_bits_by_rows")
    bb = relax.BlockBuilder()
    x, ids = (relax.Var("x", relax.TensorType((4, DEPTH), "float32")),
              relax.Var("ids", relax.TensorType((4,), "int64")))  # fmt: skip
    words, scales, zeros = map(relax.const, case.matrices())
    with bb.function("main", [x, ids]):
        with bb.dataflow():
            next_ids = bb.emit(op.flip(ids, 0))
            parts = [bb.emit(op.take(p, i, 0, mode="fast"))
                     for p, i in ((words, ids), (scales, next_ids), (zeros, ids))]  # fmt: skip
            w = bb.emit(group_dequantize(*parts, bits=4, group_size=32, axis=1, offset=0.0))
            out = bb.emit_output(by_rows(bb.emit, x, w, 4))
        bb.emit_func_output(out)
    assert not opinfo.dispatch(bb.get(), BACKENDS).taken


def narrowed(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return by_rows(emit, emit(op.astype(x, "float16")), emit(op.astype(w, "float16")), rows)


@pytest.mark.parametrize(
    ("case", "reason"),
    [(Case("", by_rows, bits=4, bound=False, zeros=True), "the zero points are uint32"),
     (Case("", narrowed, bound=False), "parameters that are rounded to float16")],
    ids=["few bits", "rounded"],
)  # fmt: skip
def test_parameters_that_change_before_the_product_stay(case: Case, reason: str) -> None:
    done = opinfo.dispatch(case.module(), BACKENDS)
    assert not done.taken
    assert any(reason in str(left) for left in done.left), done.left


def test_it_is_a_default() -> None:
    assert [r.backend for r in opinfo.dispatch(CASES[0].module()).taken] == ["experts"]
