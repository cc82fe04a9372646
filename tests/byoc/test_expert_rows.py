"""Products of rows with matrices of their experts on a CPU: equal to numpy's, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.composites.grouped import group_dequantize

op = relax.op
BACKENDS = ["experts", "tvm"]
EXPERTS, DEPTH, COLUMNS = 4, 288, 48
M = tvm.tirx.Var("m", "int64")
#: The experts of some rows: few and many, sorted or not, some experts without a row.
NUMBERS: tuple[list[int], ...] = ([2], [3, 0], [1] * 20, [3, 0, 3, 2, 3] * 9, [0, 1, 2, 3] * 60, [])
Emit = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A module of a product: how the matrices are stored, and how the product is written."""

    name: str
    build: Callable[[Emit, Any, Any, Any], Any]
    transposed: bool = False  # whether the matrices are (columns, depth)
    bits: int = 0
    early: bool = False  # whether words are gathered, not numbers
    bound: bool = True  # whether the matrices are constants, not parameters
    dtype: str = "float32"
    stored: str = ""  # the dtype of float matrices or of scales
    ids: str = "int64"
    zeros: bool = False
    columns: int = COLUMNS

    def matrices(self) -> list[Any]:
        """The constant operands."""
        rng = np.random.default_rng(3)
        shape = (EXPERTS, *((self.columns, DEPTH) if self.transposed else (DEPTH, self.columns)))
        axis = 2 if self.transposed else 1
        if not self.bits:
            return [rng.standard_normal(shape).astype(self.stored or self.dtype)]
        words, groups = list(shape), list(shape)
        words[axis] //= 32 // self.bits
        groups[axis] //= 32
        out = [rng.integers(0, 2**32, words, "uint32"),
               (0.01 + rng.random(groups) / 10).astype(self.stored or self.dtype)]  # fmt: skip
        return [*out, rng.integers(0, 16, groups, "uint32")] if self.zeros else out

    def values(self) -> Any:
        """The matrices in float64, (experts, depth, columns)."""
        values, *rest = (a if a.dtype == np.uint32 else a.astype(float) for a in self.matrices())
        axis = 2 if self.transposed else 1
        if self.bits:
            parts = [values >> np.uint32(self.bits * k) & np.uint32(2**self.bits - 1)
                     for k in range(32 // self.bits)]  # fmt: skip
            shape = [e * (len(parts) if k == axis else 1) for k, e in enumerate(values.shape)]
            values = np.stack(parts, axis + 1).reshape(shape).astype(float)
            zeros = rest[1].astype(float).repeat(32, axis) if self.zeros else 7.0
            values = (values - zeros) * rest[0].repeat(32, axis)
        return values.transpose(0, 2, 1) if self.transposed else values

    def module(self, rows: Any = M) -> Any:
        bb = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType((rows, DEPTH), self.dtype))
        ids = relax.Var("ids", relax.TensorType((rows,), self.ids))
        constants = [relax.const(a) for a in self.matrices()]
        free = [] if self.bound else [relax.Var(f"w{k}", c.ty) for k, c in enumerate(constants)]
        attrs = {"bits": self.bits, "group_size": 32, "axis": 2 if self.transposed else 1,
                 "offset": 0.0 if self.zeros else 7.0}  # fmt: skip
        with bb.function("main", [x, ids, *free]):
            with bb.dataflow():
                parts = free or constants
                if self.bits and not self.early:
                    parts = [bb.emit(group_dequantize(*parts, **attrs))]
                chosen = [bb.emit(op.take(p, ids, 0, mode="fast")) for p in parts]
                if self.bits and self.early:
                    chosen = [bb.emit(group_dequantize(*chosen, **attrs))]
                out = bb.emit_output(self.build(bb.emit, x, chosen[0], rows))
            bb.emit_func_output(out)
        return bb.get()

    def inputs(self, ids: list[int]) -> tuple[Any, Any]:
        x = np.random.default_rng(len(ids)).standard_normal((len(ids), DEPTH))
        return x.astype(self.dtype), np.array(ids, self.ids)


def by_rows(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.squeeze(emit(op.matmul(emit(op.expand_dims(x, 1)), w)), 1)


def swapped(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return by_rows(emit, x, emit(op.permute_dims(w, (0, 2, 1))), rows)


def widened(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return by_rows(emit, x, emit(op.astype(w, "float32")), rows)


def by_columns(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.squeeze(emit(op.matmul(w, emit(op.expand_dims(x, 2)))), 2)


def summed(emit: Emit, x: Any, w: Any, rows: Any) -> Any:
    return op.einsum((x, w), "rk,rnk->rn")


CASES = [
    Case("rows", by_rows),
    Case("rows_f16", by_rows, dtype="float16", ids="int32"),
    Case("permuted", swapped, transposed=True, columns=40),
    Case("widened", widened, stored="float16"),
    Case("columns", by_columns, transposed=True, columns=33),
    Case("einsum", summed, transposed=True),
    Case("four_bits", swapped, transposed=True, bits=4),
    Case("four_bits_f16", summed, transposed=True, bits=4, dtype="float16", ids="int32"),
    Case("four_bits_gathered", by_columns, transposed=True, bits=4, early=True),
    Case("four_bits_by_rows", by_rows, bits=4, early=True, zeros=True),
    Case("eight_bits", by_rows, bits=8, stored="float32"),
    Case("free_rows", by_rows, columns=40, bound=False),
    Case("free_f16", widened, stored="float16", bound=False),
    Case("free_columns", by_columns, transposed=True, columns=33, bound=False),
    Case("free_einsum_f16", summed, transposed=True, dtype="float16", bound=False),
    Case("free_four_bits", swapped, transposed=True, bits=4, bound=False, columns=40),
    Case("free_four_bits_f16", by_columns, transposed=True, bits=4, early=True, dtype="float16",
         ids="int32", bound=False, columns=33),
    Case("free_four_bits_by_rows", by_rows, bits=4, early=True, bound=False),
    Case("free_eight_bits", by_rows, bits=8, stored="float32", bound=False, columns=33),
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled() -> Any:
    """One library of all cases, each a function."""
    functions = {c.name: c.module()["main"].with_attr("global_symbol", c.name) for c in CASES}
    return opinfo.compile(tvm.IRModule(functions), BACKENDS)


def test_each_product_is_taken(compiled: Any) -> None:
    taken = [r.backend for r in compiled.dispatched.taken]
    assert taken == ["experts"] * len(CASES), compiled.report()


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


def _product(build: Callable[..., Any], rows: int = 3, experts: int = EXPERTS) -> Any:
    """A module of ``build(emit, x, matrices, ids)``, with x of (rows, 1, DEPTH)."""
    bb = relax.BlockBuilder()
    rng = np.random.default_rng(3)
    x = relax.Var("x", relax.TensorType((rows, 1, DEPTH), "float32"))
    ids = relax.Var("ids", relax.TensorType((rows,), "int64"))
    matrices = relax.const(rng.standard_normal((experts, DEPTH, COLUMNS)).astype("float32"))
    with bb.function("main", [x, ids]):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, x, matrices, ids))
        bb.emit_func_output(out)
    return bb.get()


def test_what_follows_is_computed_beside_the_rows_of_the_result() -> None:
    bias = np.random.default_rng(4).standard_normal((30, 1, COLUMNS)).astype("float32")

    def build(emit: Emit, x: Any, w: Any, ids: Any) -> Any:
        y = emit(op.matmul(x, emit(op.take(w, ids, 0, mode="fast"))))
        return op.nn.silu(emit(op.add(y, relax.const(bias))))

    compiled: Any = opinfo.compile(_product(build, 30), BACKENDS)
    assert [len(r.ops) for r in compiled.dispatched.taken] == [4]
    case, ids = CASES[0], [3, 1, 3] * 10
    x, numbers = case.inputs(ids)
    y = np.einsum("rk,rkn->rn", x, case.values()[ids]) + bias[:, 0]
    got = compiled.run(x[:, None], numbers)
    np.testing.assert_allclose(got[:, 0], y / (1 + np.exp(-y)), 1e-4, 1e-4)


def test_several_rows_have_one_number() -> None:
    """One tensor of 5 rows is multiplied with the matrix of each number."""

    def build(emit: Emit, x: Any, w: Any, ids: Any) -> Any:
        shared = emit(op.reshape(x, (1, 5, DEPTH)))
        return op.matmul(shared, emit(op.take(w, ids, 0, mode="fast")))

    compiled: Any = opinfo.compile(_product(build, 5), BACKENDS)
    assert [r.backend for r in compiled.dispatched.taken] == ["experts"]
    x, numbers = CASES[0].inputs([2, 0, 2, 1, 2])
    expected = x.astype(float) @ CASES[0].values()[numbers]
    np.testing.assert_allclose(compiled.run(x[:, None], numbers), expected, 0, 1e-4)


def test_numbers_outside_of_the_experts_are_clipped_or_an_error() -> None:
    for mode in ("clip", "fast"):
        mod = _product(lambda emit, x, w, ids, mode=mode: op.matmul(
            x, emit(op.take(w, emit(op.divide(ids, relax.const(2, "int64"))), 0,
                            mode=mode))))  # fmt: skip
        compiled: Any = opinfo.compile(mod, BACKENDS)
        assert [r.backend for r in compiled.dispatched.taken] == ["experts"]
        x, numbers = CASES[0].inputs([-2, 4, 8])
        if mode == "fast":
            with pytest.raises(ValueError, match="outside of its axis"):
                compiled.run(x[:, None], numbers)
            continue
        expected = np.einsum("rk,rkn->rn", x.astype(float), CASES[0].values()[[0, 2, 3]])
        np.testing.assert_allclose(compiled.run(x[:, None], numbers)[:, 0], expected, 0, 1e-4)


@pytest.mark.parametrize("alone", [False, True])
def test_rows_of_another_length_are_an_error(alone: bool) -> None:
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
    compiled: Any = opinfo.compile(bb.get(), BACKENDS)
    assert [r.backend for r in compiled.dispatched.taken] == ["experts"]
    numbers = np.array([0, 3])
    for length in (6, 0, 3, 12):
        rows = np.ones((2, length, 1) if alone else (2, 1, length), "float32")
        if length == 6:
            np.testing.assert_array_equal(np.asarray(compiled.run(rows, numbers)).ravel(), 6)
            continue
        with pytest.raises(ValueError, match=f"have {length} values, expected 6"):
            compiled.run(rows, numbers)


def _taken(build: Callable[..., Any]) -> Any:
    return opinfo.dispatch(_product(build, 4), BACKENDS)


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
