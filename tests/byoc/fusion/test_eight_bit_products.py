"""Products of dequantised numbers as products of 8 bits: what is rewritten and computed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.analysis.composites import transposed_matmul
from opinfo.byoc.backends.nvidia.products.eight_bits import unaligned
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.prepare.gpu.eight_bit_products import eight_bit_products

from ..codegen.built_cases import module, results_of
from ..nvidia.test_nvidia import on_stub

op = relax.op
N = tirx.Var("n", "int64")
ROWS = 5
FLOAT8 = "float8_e4m3fn"
Array = np.ndarray[Any, Any]


def _const(array: Any, dtype: str = "float32") -> Any:
    return relax.const(np.asarray(array, dtype), dtype)


def _weights(*shape: int, dtype: str = "int8") -> Array:
    rng = np.random.default_rng(3)
    if dtype == FLOAT8:
        return rng.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)
    return rng.integers(-127, 128, shape).astype("int8")


W = _weights(32, 16)  # terms, columns
COLUMNS = np.linspace(0.01, 0.05, 16, dtype="float32")


def _dequantized(emit: Any, x: Any, scale: Any, zero: Any, axis: int = -1) -> Any:
    dtype = str(x.ty.dtype)
    s = scale if isinstance(scale, relax.Var) else _const(scale)
    return emit(op.dequantize(x, s, _const(zero, dtype), axis=axis, out_dtype="float32"))


def _stored(emit: Any, scale: Any, w: Array = W, axis: int = -1) -> Any:
    zero = np.zeros(np.shape(scale))
    return _dequantized(emit, _const(w, str(w.dtype)), scale, zero, axis)


def _real(x: Array) -> Array:
    return x.astype("float64")


@dataclass(frozen=True)
class Case:
    inputs: tuple[tuple[tuple[Any, ...], str], ...]
    build: Callable[..., Any]
    exact: Callable[..., Array]
    products: int = 1


def _scaled8(emit: Any, x: Any, scale: Any) -> Any:
    s = scale if isinstance(scale, relax.Var) else _const(scale)
    return emit(op.multiply(emit(op.astype(x, "float32")), s))


def _dynamic(emit: Any, x: Any, z: Any, s: Any) -> Any:
    """What `MatMulInteger` is imported as, scaled afterwards."""
    codes = emit(op.subtract(emit(op.astype(x, "float32")), emit(op.astype(z, "float32"))))
    total = emit(op.astype(emit(op.matmul(codes, _const(W))), "int32"))
    return emit(op.multiply(emit(op.astype(total, "float32")), s))


F8 = _weights(16, 32, dtype=FLOAT8)
CASES: dict[str, Case] = {
    "int8": Case((((ROWS, 32), "int8"),), lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _stored(e, 0.03))),
        lambda x: _real(x) @ _real(W) * 0.02 * 0.03),
    "zero point, scales by column": Case((((2, ROWS, 32), "int8"),), lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, -7), _stored(e, COLUMNS))),
        lambda x: (_real(x) + 7) @ _real(W) * 0.02 * COLUMNS),
    "uint8": Case((((ROWS, 32), "uint8"),), lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 117), _stored(e, COLUMNS))),
        lambda x: (_real(x) - 117) @ _real(W) * 0.02 * COLUMNS),
    "weights in rows": Case((((ROWS, 32), "int8"),), lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), e(op.permute_dims(_stored(e, COLUMNS, W.T.copy(), 0))))),
        lambda x: _real(x) @ _real(W) * 0.02 * COLUMNS),
    "attention": Case((((2, 3, ROWS, 16), "int8"), ((2, 3, 8, 16), "int8")), lambda e, q, k: e(
        op.matmul(_dequantized(e, q, 0.02, 0), e(op.permute_dims(
            _dequantized(e, k, 0.03, 0), [0, 1, 3, 2])))),
        lambda q, k: _real(q) @ np.swapaxes(_real(k), -1, -2) * 0.02 * 0.03),
    "scales at run time": Case((((ROWS, 32), "int8"), ((), "float32")), lambda e, x, s: e(
        op.matmul(_dequantized(e, x, s, 0), _stored(e, 0.03))),
        lambda x, s: _real(x) @ _real(W) * _real(s) * 0.03),
    "dynamic quantisation": Case(
        (((ROWS, 32), "uint8"), ((), "uint8"), ((), "float32")), _dynamic,
        lambda x, z, s: (_real(x) - _real(z)) @ _real(W) * _real(s)),
    "float8": Case((((ROWS, 32), FLOAT8), ((ROWS, 1), "float32")), lambda e, x, s: e(op.matmul(
        _scaled8(e, x, s), e(op.permute_dims(_scaled8(e, _const(F8, FLOAT8), 0.03))))),
        lambda x, s: _real(x) * s @ _real(F8).T * 0.03),
    "float8 without scales": Case((((ROWS, 32), FLOAT8), ((16, 32), FLOAT8)), lambda e, x, w: e(
        transposed_matmul(e(op.astype(x, "float16")), e(op.astype(w, "float16")))),
        lambda x, w: _real(x) @ _real(w).T),
}  # fmt: skip


def _values(cases: dict[str, Case]) -> dict[str, list[Array]]:
    rng = np.random.default_rng(0)

    def array(shape: Any, dtype: str) -> Array:
        if "int" in dtype:
            info = np.iinfo(dtype)
            return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True), dtype)
        made = np.asarray(rng.uniform(0.5, 1.5, shape), "float32")
        return made.astype(ml_dtypes.float8_e4m3fn) if dtype == FLOAT8 else made

    return {name: [array(*i) for i in c.inputs] for name, c in cases.items()}


@functools.cache
def compiled() -> CompiledModule:
    return compile_module(module(CASES), [on_stub("cublaslt")], plan=False)


@functools.cache
def results() -> dict[str, tuple[Sequence[Array], Array]]:
    return results_of(compiled(), _values(CASES))


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_program_says(name: str) -> None:
    given, found = results()[name]
    exact = CASES[name].exact(*given)
    assert found.shape == exact.shape and len(np.unique(found)) > 20
    tolerance = 1e-3 if found.dtype == "float16" else 1e-6
    assert np.abs(found - exact).max() <= tolerance * np.abs(exact).max()


def test_all_products_are_taken() -> None:
    taken = [t.ops[0] for t in compiled().dispatched.taken]
    assert taken == ["relax.nn.transposed_matmul"] * len(CASES)
    assert not [o.op for o in compiled().dispatched.left if "matmul" in o.op]


def _rewritten(mod: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = eight_bit_products(mod, unaligned)
    return out, [str(w.message) for w in caught]


def test_integers_are_multiplied_before_they_are_scaled() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4, 16), "int8"), w: R.Tensor((8, 16), "int8"), s: R.Tensor((), "float32")
        ) -> R.Tensor((4, 8), "float32"):
            with R.dataflow():
                a = R.dequantize(x, s, R.const(0, "int8"), out_dtype="float32")
                b = R.dequantize(w, R.const(0.5), R.const(0, "int8"), out_dtype="float32")
                c = R.permute_dims(b)
                y: R.Tensor((4, 8), "float32") = R.matmul(a, c)
                R.output(y)
            return y

    x, w, s = (relax.Var(p.name, p.ty) for p in Before["main"].params)
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w, s]):
        with bb.dataflow():
            total = bb.emit(transposed_matmul(x, w, out_dtype="int32"))
            real = bb.emit(op.astype(total, "float32"))
            y = bb.emit_output(op.multiply(bb.emit(op.multiply(real, _const(0.5))), s))
        bb.emit_func_output(y)
    found, notes = _rewritten(Before)
    assert notes == []
    tvm.ir.assert_structural_equal(found, bb.get())


def _refused(build: Callable[..., Any], *inputs: Any) -> tuple[Case, str]:
    *shapes, reason = inputs
    return Case(tuple(shapes), build, lambda *_: np.zeros(())), reason


X8 = ((4, 32), "int8")
REFUSED: dict[str, tuple[Case, str]] = {
    "rows": _refused(lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _stored(e, 0.03))), ((N, 32), "int8"),
        "the number of rows is symbolic, expected a static one for int8"),
    "terms": _refused(lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _stored(e, 0.03, _weights(30, 16)))), ((4, 30), "int8"),
        "30 terms of a sum of int8, expected a multiple of 4"),
    "too many terms": _refused(lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _stored(e, 0.03, _weights(65536, 4)))), ((4, 65536), "int8"),
        "65536 products are summed, expected fewer than 65536 in int32"),
    "scales along the sum": _refused(lambda e, x: e(op.matmul(_dequantized(e, x, 0.02, 0), _stored(
        e, np.linspace(0.01, 0.02, 32), axis=0))), X8,
        "a scale of the second operand varies along the axis that is summed"),
    "scales of the first operand": _refused(lambda e, x: e(op.matmul(_dequantized(
        e, x, np.linspace(0.01, 0.02, 32), np.zeros(32)), _stored(e, 0.03))), X8,
        "a scale of the first operand varies along the axis that is summed"),
    "zero point of weights": _refused(lambda e, x: e(op.matmul(_dequantized(
        e, x, 0.02, 0), _dequantized(e, _const(W, "int8"), 0.03, 3))), X8,
        "the second operand has a zero point"),
    "zero point beside a tensor": _refused(lambda e, x, w: e(op.matmul(_dequantized(
        e, x, 0.02, 1), e(op.permute_dims(_dequantized(e, w, 0.03, 0))))), X8, ((8, 32), "int8"),
        "the first operand has a zero point, and the second one is not a constant"),
    "a tensor in columns": _refused(lambda e, x, w: e(op.matmul(_dequantized(
        e, x, 0.02, 0), _dequantized(e, w, 0.03, 0))), X8, ((32, 8), "int8"),
        "the second operand is not a constant, and not in rows of what is summed"),
    "two dtypes": _refused(lambda e, x: e(op.matmul(
        _scaled8(e, x, 1.0), _stored(e, 0.03))), ((4, 32), FLOAT8),
        "float8_e4m3fn and int8 are multiplied, expected one dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_stays_and_is_named(name: str) -> None:
    case, reason = REFUSED[name]
    mod = module({"": case})
    found, notes = _rewritten(mod)
    tvm.ir.assert_structural_equal(found, mod)
    assert notes == [f"1 quantised product is not computed in 8 bits: {reason}"]


LEFT: dict[str, tuple[Case, str]] = {
    "float weights": _refused(lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _const(W + 0.5))), X8, ""),
    "float weights that are large": _refused(lambda e, x: e(op.matmul(
        _dequantized(e, x, 0.02, 0), _const(W * 2.0))), X8, ""),
    "a zero point that may be a fraction": _refused(lambda e, x, z: e(op.matmul(e(op.subtract(
        e(op.astype(x, "float32")), z)), _const(W))), X8, ((), "float32"), ""),
    "dequantised float8, which TVM truncates": _refused(lambda e, x: e(op.matmul(e(op.dequantize(
        x, _const(0.5), _const(0, "float16"), out_dtype="float32")), _const(W))),
        ((4, 32), FLOAT8), ""),
    "a product that is written so": _refused(lambda e, x, w: e(transposed_matmul(
        x, w, out_dtype="bfloat16")), ((4, 32), FLOAT8), ((8, 32), FLOAT8), ""),
    "scaled after rounding": _refused(lambda e, x: e(op.matmul(e(op.astype(
        _dequantized(e, x, 0.02, 0), "float16")), _const(W, "float16"))), X8, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_dequantized_stays(name: str) -> None:
    mod = module({"": LEFT[name][0]})
    found, notes = _rewritten(mod)
    assert found is mod and notes == []
