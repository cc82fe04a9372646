"""Which regions may be products of pieces, and what their code computes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.region import Tensor
from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.products import piece_limits
from opinfo.byoc.backends.nvidia.products.cublaslt import HEADERS
from opinfo.byoc.backends.nvidia.products.gemm import Gemm
from opinfo.byoc.backends.nvidia.products.piece_limits import FEWEST, LEAST, ROUNDS, most
from opinfo.byoc.backends.nvidia.products.pieces import pieces_kernel
from opinfo.byoc.compile import compile_module

from ....common.run import run
from ..cases.case import Array, Case, N
from ..cases.products import PRODUCTS
from ..nvidia_cases import inputs, module
from ..nvidia_library import host_kernels, stub
from ..test_nvidia import on_stub

op = relax.op


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Small products may be of pieces, which the stub computes in half the time; counts them."""
    monkeypatch.setattr(piece_limits, "FEWEST", 0)
    monkeypatch.setattr(piece_limits, "no_kernel_compiler", lambda: None)
    monkeypatch.setattr(pieces_kernel, "compiled", host_kernels)
    library = ctypes.CDLL(stub())
    time = ctypes.c_float.in_dll(library, "_ZN4stub14product_piecesE")
    time.value = 0.5
    yield ctypes.c_int.in_dll(library, "_ZN4stub10pieces_ranE")
    time.value = 1


def _constant(shape: tuple[int, ...], copies: int = 0, apart: bool = False) -> Any:
    array = np.random.default_rng(3).standard_normal(shape).astype("float32")
    if copies:
        array = np.repeat(array[None], copies, 0)
        array[-1, 0, 0] += apart
    return relax.const(array)


def _repeated(x: tuple[int, ...], copies: int, apart: bool = False) -> Case:
    return Case("cublaslt", (x, (3, 8, 32)), lambda e, c, a, z: e(op.add(
        e(op.matmul(a, _constant((24, 32), copies, apart))), z)), "matmul add")  # fmt: skip


#: Products with constant weights, and whether they may be of pieces.
CASES = {
    **{name: (PRODUCTS[name], True) for name in (
        "relu", "bias, gelu by tanh", "scaled, bias", "residual", "residual before bias",
        "reshaped residual")},
    **{name: (PRODUCTS[name], False) for name in ("matmul", "rows at run time", "float16")},
    "repeated weights": (_repeated((3, 8, 24), 3), True),
    "weights apart": (_repeated((3, 8, 24), 3, apart=True), False),
    "repeated for one matrix": (_repeated((1, 8, 24), 3), False),
}  # fmt: skip


def test_regions_with_constant_weights_are_products_of_pieces(few: Any) -> None:
    cases = {name: case for name, (case, _) in CASES.items()}
    made = compile_module(module(cases), [on_stub("cublaslt")], plan=False)
    assert not [o for o in made.dispatched.left if o.op == "relax.matmul"]
    said = [ROUNDS in (t.rounds or "") for t in made.dispatched.taken]
    assert sorted(said) == sorted(may for _, may in CASES.values())
    stored = made.dispatched.module.attrs["const_name_to_constant"].values()
    assert sum(tuple(c.shape) == (3, 24, 32) for c in stored) == 2  # else one copy
    given = [tvm.runtime.tensor(a) for case in inputs(cases) for a in case]
    main, counts = made.machine()["main"], []
    for _ in range(8):  # results that are aligned to more or less are measured
        few.value = 0
        found = [t.numpy() for t in main(*given)]
        counts.append(few.value)
    assert min(counts) == sum(said)
    expected = run(module(cases, exact=True), [a for c in inputs(cases, exact=True) for a in c])
    for (name, (case, _)), one, other in zip(CASES.items(), expected, found, strict=True):
        apart = np.abs(other.astype("float32") - one).max() / np.abs(one).max()
        assert apart < (2e-3 if case.dtype == "float16" else 1e-6), name


#: Rows and columns for which sums of 256 are long enough.
ROWS, DEPTH, COLUMNS = 512, 256, 512


def _most(weights: Array | None = None, rows: Any = ROWS, depth: int = DEPTH, **how: Any) -> Any:
    if weights is None:
        weights = np.ones((depth, COLUMNS), "float32")
    a = Tensor("input", 0, (rows, depth), how.pop("dtype", "float32"))
    b = Tensor(how.pop("source", "constant"), 0, weights.shape, "float32")
    product = Gemm(a, b, how.pop("turned", (False, False)), False, 1.0, None, None, None)
    result = Tensor("call", 0, (rows, COLUMNS), "float32")
    return most(product, result, how.pop("given", weights))


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_limits, "no_kernel_compiler", lambda: None)


def _weights(row: int, column: int, value: float) -> Array:
    out = np.ones((DEPTH, COLUMNS), "float32")
    out[row, column] = value
    return out


def _column(value: float) -> Array:
    out = np.ones((DEPTH, COLUMNS), "float32")
    out[:, 5] = value
    return out


@pytest.mark.parametrize(
    "weights",
    [None, _column(0), _column(2.0**-100), _weights(3, 4, 2.0**-140), _weights(3, 4, 2.0**32)],
)
@pytest.mark.usefixtures("compiler")
def test_no_sum_of_rows_below_the_limit_overflows(weights: Array | None) -> None:
    limit = _most(weights)
    largest = 1.0 if weights is None else float(weights.max())
    assert limit * DEPTH * largest < np.finfo("float32").max / 2
    assert limit > 2.0**80  # and the range is wide


@pytest.mark.parametrize("how", [
    {"weights": _weights(0, 0, np.inf)}, {"weights": _weights(3, 4, np.nan)},
    {"weights": _weights(255, 511, -(2.0**33))}, {"weights": _column(2.0**-101)},
    {"weights": np.zeros((DEPTH, COLUMNS), "float32")}, {"depth": 254}, {"depth": 4100},
    {"rows": N}, {"rows": 511}, {"turned": (True, False)}, {"dtype": "float16"},
    {"given": None, "weights": np.ones((DEPTH, COLUMNS), "float32"), "source": "input"},
])  # fmt: skip
@pytest.mark.usefixtures("compiler")
def test_products_that_have_no_pieces(how: dict[str, Any]) -> None:
    assert ROWS * DEPTH * COLUMNS == FEWEST and _most() is not None
    assert _most(**how) is None


@pytest.mark.usefixtures("compiler")
def test_columns_are_judged_where_weights_are_stored_by_columns() -> None:
    weights = np.ascontiguousarray(_column(2.0**-101).T)
    assert _most(weights, turned=(False, True)) is None
    assert _most(_weights(5, 0, 2.0**-101).T.copy(), turned=(False, True)) is not None


def test_without_a_compiler_or_by_the_option_there_are_no_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piece_limits, "no_kernel_compiler", lambda: "none is installed")
    assert _most() is None
    monkeypatch.setattr(piece_limits, "no_kernel_compiler", lambda: None)
    assert _most() is not None
    monkeypatch.setenv("OPINFO_CUBLASLT_PIECES", "0")
    assert _most() is None


def test_the_least_magnitude_is_that_of_the_kernels() -> None:
    text = library_headers("opinfo.byoc.backends.nvidia.products", *HEADERS)
    assert f"kLeast = 0x1p{int(np.log2(LEAST))}f" in text
