"""Products with weights of few bits: equal to numpy's with the dequantised weights."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.compile import CompiledModule, compile_module

from .weight_only_cases import (
    BACKENDS,
    PRODUCTS,
    Array,
    Product,
    Quantized,
    check_close,
    check_every_product_taken,
    compiled_for,
    function,
    module,
    product,
    weights,
)

#: What is also compiled for CPUs without vectors of 32 bytes; all is for those without AVX-512.
PORTABLE = ("2 bits", "3 bits, partial words", "zero points", "float32 scales", "float16 after it")
#: What the suite compiles for this CPU: all is compiled for AVX2 here, and for AVX-512 by
#: `test_simulated_avx512.py`, and this CPU has either.
HERE = (*PORTABLE, "4 bits", "8 bits", "4 bits, groups of 128", "2 bits, groups of 128",
        "the largest offset", "operators after it", "more than one part")  # fmt: skip
NAMES = {"": HERE, "haswell": tuple(PRODUCTS), "x86-64": PORTABLE}
REST = tuple(name for name in PRODUCTS if name not in HERE)
CASES = [(cpu, name) for cpu, names in NAMES.items() for name in names]


@cache
def _compiled(cpu: str, rest: bool = False) -> CompiledModule:
    return compiled_for(cpu, module({n: PRODUCTS[n] for n in (REST if rest else NAMES[cpu])}))


@cache
def _machine(cpu: str = "", rest: bool = False) -> Any:
    return _compiled(cpu, rest).machine()


def _run(name: str, x: Any, z: Any, cpu: str = "") -> Array:
    rest = name not in NAMES[cpu]
    arguments = (a if isinstance(a, tvm.runtime.Tensor) else tvm.runtime.tensor(a) for a in (x, z))
    number = (REST if rest else NAMES[cpu]).index(name)
    return np.asarray(_machine(cpu, rest)[f"f{number}"](*arguments).numpy())


def _inputs(product: Product, rows: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, product.depth)).astype(product.dtype)
    return x, rng.standard_normal((rows, product.columns)).astype(product.dtype)


@pytest.mark.parametrize("cpu", NAMES)
def test_every_product_is_one_region(cpu: str) -> None:
    check_every_product_taken(_compiled(cpu), len(NAMES[cpu]))


@pytest.mark.parametrize(("cpu", "name"), [
    *CASES, *(pytest.param("", name, marks=pytest.mark.sweep) for name in REST)
])  # fmt: skip
def test_products_equal_those_of_numpy(cpu: str, name: str) -> None:
    product = PRODUCTS[name]
    for rows in (0, 1, 3, 6, 67):
        x, z = _inputs(product, rows)
        expected, actual = product.expected(x, z), _run(name, x, z, cpu)
        check_close(actual, expected, product.dtype)


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_activations_of_very_different_sizes_are_as_exact_as_in_float32(cpu: str) -> None:
    product = PRODUCTS["float32 scales"]
    x, z = _inputs(product, 40)
    x *= 10.0 ** np.random.default_rng(1).integers(-20, 15, (40, 3)).repeat(32, 1)
    x[7], x[8], x[9] = 0, 1e-42, 3e36
    w, rows = product.weights.values().T, x.astype("float64")
    bound = 1e-6 * (abs(rows) @ abs(w)) + 1e-36
    for some in (4, 40):  # with AVX2, many rows are multiplied as floats
        actual = [_run("float32 scales", x[k : k + some], z[k : k + some], cpu)
                  for k in range(0, 40, some)]  # fmt: skip
        assert (abs(np.concatenate(actual) - rows @ w) <= bound).all()


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_rows_with_infinity_and_nan(cpu: str) -> None:
    product = PRODUCTS["4 bits"]
    x, z = _inputs(product, 6)
    x[1, 5], x[3, 40], x[4, :2] = np.nan, np.inf, [np.inf, -np.inf]
    with np.errstate(invalid="ignore"):
        expected = product.expected(x, z)
    np.testing.assert_allclose(_run("4 bits", x, z, cpu), expected, rtol=1e-4, atol=1e-4)
    for row in range(6):
        actual = _run("4 bits", x[row : row + 1], z[row : row + 1], cpu)
        np.testing.assert_allclose(actual[0], expected[row], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 30])
def test_threads_change_nothing(rows: int) -> None:
    """Also if there are more threads than cores, of which some find nothing left to do."""
    library = ctypes.CDLL("libgomp.so.1")
    before = library.omp_get_max_threads()
    product = PRODUCTS["more than one part"]
    x, z = _inputs(product, rows)
    results = []
    try:
        for threads in (1, 2, 5):
            library.omp_set_num_threads(threads)
            results.append(_run("more than one part", x, z))
    finally:
        library.omp_set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


def test_inputs_at_any_address() -> None:
    product = PRODUCTS["operators after it"]
    arrays = _inputs(product, 3)
    room = tvm.runtime.tensor(np.zeros(1000, "float32"))
    moved, at = [], 1
    for array in arrays:
        view = room._create_view(array.shape, "float32", 4 * at)
        view.copyfrom(array)
        moved.append(view)
        at += array.size
    np.testing.assert_array_equal(_run("operators after it", *moved),
                                  _run("operators after it", *arrays))  # fmt: skip


@pytest.mark.parametrize("cpu", ["", "haswell"])
@pytest.mark.parametrize("name", ["8 bits", "4 bits, groups of 128", "2 bits, groups of 128",
                                  "the largest offset"])  # fmt: skip
def test_the_largest_sums_do_not_overflow(cpu: str, name: str) -> None:
    """Where all digits are the largest, and so are weights; whole numbers are exact."""
    product = PRODUCTS[name]
    x = np.full((2, product.depth), -(2.0**22) + 1, "float32")
    x[1] = -128 * (1 + 2**8 + 2**14)
    w = product.weights.values()
    expected = x.astype("float64") @ w.T
    bound = 1e-6 * abs(x.astype("float64")) @ abs(w.T)
    actual = _run(name, x, np.zeros((2, product.columns), "float32"), cpu)
    assert (abs(actual - expected) <= bound).all()


def test_weights_of_several_large_pages() -> None:
    q, other = Quantized((2048, 4000), group=80), Quantized((48, 4000), group=80)
    words = [w.arrays()[0] for w in (q, other)]
    scales = [w.arrays()[1] for w in (q, other)]
    rows = np.random.default_rng(2).standard_normal((2, 4000)).astype("float32")
    mod = function(lambda e, x: e(relax.Tuple([product(e, x, weights(e, w))
                                                for w in (q, other)])), rows.shape)  # fmt: skip
    machine = compile_module(mod, BACKENDS, target=native_target()).machine()
    for actual, w, s in zip(machine["main"](tvm.runtime.tensor(rows)), words, scales, strict=True):
        values = (w[..., None] >> 4 * np.arange(8, dtype="uint32") & 15).reshape(len(w), -1)
        floats = (values - q.offset) * s.astype("float64").repeat(80, 1)
        np.testing.assert_allclose(actual.numpy(), rows @ floats.T, rtol=1e-5, atol=1e-4)


def test_rounding_is_reported() -> None:
    (line,) = {r.rounds for r in _compiled("haswell").dispatched.taken
               if r.rounds and "float16" in r.rounds}  # fmt: skip
    assert line
