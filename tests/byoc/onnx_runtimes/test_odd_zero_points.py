"""Halves are quantised as TVM does: round to even, then add the zero point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Array
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from ..onednn.int8_cases import Q, dequantized

op = relax.op
X = Q("uint8", 0.5, 3)
W = Q("int8", 1.0)
ROWS = np.random.default_rng(1).integers(0, 9, (32, 16)).astype("uint8")
WEIGHTS = (np.random.default_rng(0).integers(-3, 4, (16, 16)) * 2 + 1).astype("int8")


def _built(zero: int, build: Any) -> Any:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(ROWS.shape, "uint8"))
    out = Q("uint8", 1.0, zero)
    with bb.function("main", [x]):
        with bb.dataflow():
            y = build(bb.emit, dequantized(bb.emit, X, x))
            y = bb.emit_output(bb.emit(op.quantize(y, *out.parameters(), out_dtype="uint8")))
        bb.emit_func_output(y)
    return bb.get()


def product(zero: int) -> Any:
    """Return a product of integers, quantised."""
    return _built(zero, lambda emit, x: emit(op.nn.relu(emit(
        op.matmul(x, dequantized(emit, W, relax.const(WEIGHTS)))))))  # fmt: skip


def total(zero: int) -> Any:
    """Return a sum of integers, quantised."""
    return _built(zero, lambda emit, x: emit(op.add(x, dequantized(
        emit, Q("uint8", 1.0), relax.const(ROWS)))))  # fmt: skip


def _expected(exact: Array, zero: int) -> Array:
    return np.asarray(np.clip(np.rint(exact) + zero, 0, 255), "uint8")


@pytest.mark.parametrize("zero", [0, 3])
def test_onednn_quantizes_halves_as_tvm(zero: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onednn.int8.has_int8", lambda: True)
    real = X.real(ROWS)
    for build, exact in ((product, np.maximum(real @ WEIGHTS, 0)), (total, real + ROWS)):
        assert (exact % 1 == 0.5).any()
        compiled = compile_module(build(zero), ["onednn"], plan=False)
        assert [o.op for o in compiled.dispatched.left] == []
        got = compiled.machine()["main"](tvm.runtime.tensor(ROWS)).numpy()
        np.testing.assert_array_equal(got, _expected(exact, zero))


@pytest.mark.parametrize(("zero", "left"), [(4, 0), (3, 1)])
def test_openvino_refuses_odd_zero_points(zero: int, left: int) -> None:
    backend = find("openvino")
    done = dispatch(prepare(product(zero), [backend]), [backend])
    assert [o.op for o in done.left] == ["relax.quantize"] * left
    assert all("the zero point may be odd" in str(o.why) for o in done.left)
