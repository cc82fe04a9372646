"""Products of 8-bit numbers by cuBLASLt without a GPU, next to exact arithmetic."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax, tirx

from opinfo.analysis.composites import transposed_matmul
from opinfo.byoc.backend.backend import Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.gpu.codes import codes
from opinfo.byoc.prepare.prepare import prepare

from ..codegen.built_cases import module, results_of
from .test_nvidia import on_stub

nn, op = relax.op.nn, relax.op
N = tirx.Var("n", "int64")
ROWS = 5
FLOAT8 = "float8_e4m3fn"
NUMPY: dict[str, Any] = {FLOAT8: ml_dtypes.float8_e4m3fn, "bfloat16": ml_dtypes.bfloat16}
Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
#: Shapes of the operands.
PAIR = ((ROWS, 48), (32, 48))


@dataclass(frozen=True)
class Case:
    """``build`` in Relax and ``exact`` in float64 of inputs; ``ops``: all of the region."""

    inputs: tuple[tuple[tuple[Any, ...], str], ...]
    build: Build
    exact: Build
    ops: str
    tolerance: float = 0.0


def _integers(first: Any, second: Any) -> Case:
    return Case(((first, "int8"), (second, "int8")),
                lambda e, x, w: e(transposed_matmul(x, w, out_dtype="int32")),
                _product, "transposed_matmul")  # fmt: skip


def _product(x: Array, w: Array) -> Array:
    return x @ np.swapaxes(w, -1, -2)


def _floats(build: Build, exact: Build, ops: str, *more: Any, tolerance: float = 2e-5) -> Case:
    pair = tuple((s, FLOAT8) for s in PAIR)
    return Case((*pair, *more), build, exact, ops, tolerance)


def _wide(emit: Any, x: Any, w: Any) -> Any:
    return emit(transposed_matmul(x, w, out_dtype="float32"))


def _narrow(emit: Any, y: Any, half: str = "float16") -> Any:
    return emit(op.astype(y, half))


def _layer(emit: Any, x: Any, w: Any, s: Any, t: Any, b: Any, z: Any) -> Any:
    y = emit(op.multiply(emit(op.multiply(_wide(emit, x, w), s)), t))
    y = emit(op.add(y, emit(op.astype(b, "float32"))))
    y = emit(op.add(y, emit(op.astype(z, "float32"))))
    return _narrow(emit, emit(nn.relu(y)))


CASES: dict[str, Case] = {
    "int8": _integers(*PAIR),
    "int8, one operand of a batch": _integers((2, 3, 16), (8, 16)),
    "int8, two batches": _integers((2, 3, 16), (2, 4, 16)),
    "int8, permuted": Case(tuple((s, "int8") for s in PAIR), lambda e, x, w: e(op.matmul(
        x, e(op.permute_dims(w)), out_dtype="int32")), _product, "permute_dims matmul"),
    "float8": _floats(_wide, _product, "transposed_matmul"),
    "float8, a number": _floats(
        lambda e, x, w: e(nn.relu(e(op.multiply(_wide(e, x, w), relax.const(0.25))))),
        lambda x, w: np.maximum(_product(x, w) * 0.25, 0), "transposed_matmul multiply relu"),
    "float8, two scales": _floats(
        lambda e, x, w, s, t: e(op.multiply(e(op.multiply(_wide(e, x, w), s)), t)),
        lambda x, w, s, t: _product(x, w) * s * t, "transposed_matmul multiply multiply",
        ((), "float32"), ((1, 1), "float32")),
    "float8 to float16": _floats(
        lambda e, x, w, s: _narrow(e, e(op.multiply(_wide(e, x, w), s))),
        lambda x, w, s: _product(x, w) * s, "transposed_matmul multiply astype",
        ((1,), "float32"), tolerance=2e-3),
    "float8, a layer": _floats(
        _layer, lambda x, w, s, t, b, z: np.maximum(_product(x, w) * s * t + b + z, 0),
        "transposed_matmul multiply multiply astype add astype add relu astype",
        ((), "float32"), ((), "float32"), ((32,), "float16"), ((ROWS, 32), "float16"),
        tolerance=2e-3),
    "float8 in bfloat16": _floats(
        lambda e, x, w, b: e(op.add(e(transposed_matmul(x, w, out_dtype="bfloat16")), b)),
        lambda x, w, b: _product(x, w) + b, "transposed_matmul add", ((32,), "bfloat16"),
        tolerance=1.6e-2),
}  # fmt: skip


def values(cases: dict[str, Case]) -> dict[str, list[Array]]:
    rng = np.random.default_rng(0)

    def array(shape: Any, dtype: str) -> Array:
        if dtype == "int8":
            return np.asarray(rng.integers(-128, 128, shape), "int8")
        return np.asarray(rng.standard_normal(shape), "float32").astype(NUMPY.get(dtype, dtype))

    return {name: [array(*i) for i in c.inputs] for name, c in cases.items()}


@functools.cache
def compiled() -> CompiledModule:
    return compile_module(module(CASES), [on_stub("cublaslt")], plan=False)


@functools.cache
def results() -> dict[str, tuple[Sequence[Array], Array]]:
    return results_of(compiled(), values(CASES))


@pytest.mark.parametrize("name", CASES)
def test_integers_are_exact_and_float8_is_rounded_at_the_end(name: str) -> None:
    given, found = results()[name]
    exact = CASES[name].exact(*(a.astype("float64") for a in given))
    assert found.shape == exact.shape
    apart = np.abs(found.astype("float64") - exact).max() / np.abs(exact).max()
    assert apart <= CASES[name].tolerance
    assert len(np.unique(found)) > 20


def test_every_case_is_taken_whole_and_says_how_it_rounds() -> None:
    dispatched = compiled().dispatched
    assert [(o.op, o.why) for o in dispatched.left] == []
    taken = {" ".join(o.rpartition(".")[2] for o in t.ops): t.rounds for t in dispatched.taken}
    assert set(taken) == {c.ops for c in CASES.values()}
    assert not taken["permute_dims matmul"]
    assert "fewer bits than float32" in str(taken["transposed_matmul multiply astype"])


def _plain(x: Any, w: Any, dtype: str, result: str) -> Case:
    return Case(((x, dtype), (w, dtype)), lambda e, x, w: e(transposed_matmul(
        x, w, out_dtype=result)), _product, "")  # fmt: skip


REFUSED: dict[str, tuple[Case, str]] = {
    "columns": (_plain((4, 16), (6, 16), "int8", "int32"),
                "6 columns of int8, expected a multiple of 4"),
    "terms": (_plain((4, 24), (16, 24), FLOAT8, "float32"),
              "24 terms of a sum of float8_e4m3fn, expected a multiple of 16"),
    "symbolic rows": (_plain((N, 16), (16, 16), "int8", "int32"),
                      "the number of rows is symbolic"),
    "symbolic columns": (_plain((4, 16), (N, 16), "int8", "int32"),
                         "the number of columns is symbolic"),
    "result": (_plain((4, 16), (16, 16), "int8", "float32"),
               "the dtypes are int8, int8 and float32"),
    "unsigned": (_plain((4, 16), (16, 16), "uint8", "int32"), "the dtypes are uint8"),
    "rows of the second operand": (
        Case((((4, 16), "int8"), ((16, 16), "int8")), lambda e, x, w: e(op.matmul(
            x, w, out_dtype="int32")), _product, ""),
        "the axis that is summed is not the last one of both operands"),
    "a transposed first operand": (
        Case((((16, 4), "int8"), ((16, 16), "int8")), lambda e, x, w: e(transposed_matmul(
            x, w, transposed=(True, True), out_dtype="int32")), _product, ""),
        "the axis that is summed is not the last one of both operands"),
}  # fmt: skip


def _left(case: Case) -> str:
    backend = replace(find("cublaslt"), available=lambda: None, convert=lambda rs: Code(
        "", tuple(r.symbol for r in rs)))  # fmt: skip
    return " ".join(o.why for o in dispatch(prepare(module({"": case})), [backend]).left)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    case, reason = REFUSED[name]
    assert reason in _left(case)


def test_a_gpu_older_than_float8_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Device:
        compute_version: str
        exist: bool = True

    device = Device("8.6")
    name = "opinfo.byoc.backends.nvidia.products.eight_bits.cuda_device"
    monkeypatch.setattr(name, lambda: device)
    case = _plain((4, 16), (16, 16), FLOAT8, "float32")
    assert "the GPU has compute capability 8.6, expected 8.9 for float8_e4m3fn" in _left(case)
    device.compute_version = "10.0"
    assert not _left(case)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 128.0, -128.5])
def test_other_numbers_than_codes_are_refused_without_a_warning(value: float) -> None:
    constant = relax.const(np.array([[1.0, value]], "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = codes(constant, lambda expr: expr)
    assert found == "an operand is a constant with numbers that are not of int8"
