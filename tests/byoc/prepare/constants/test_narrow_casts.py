"""Casts of float8 are exact where they are folded, and refused on CPUs elsewhere."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION, GenericConst, array_of
from opinfo.byoc.prepare.constants.fold_constants import fold_constants
from opinfo.testing.unoptimised import unoptimised

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

E4M3 = ml_dtypes.float8_e4m3fn
#: All numbers: 0, subnormals, the largest, of both signs; not NaN.
CODES = np.array([c for c in range(256) if c & 0x7F != 0x7F], "uint8").view(E4M3)


def built(emit: Any, *params: Any) -> Any:
    bb = relax.BlockBuilder()
    with bb.function("main", list(params)):
        with bb.dataflow():
            out = bb.emit_output(emit(bb.emit, *params))
        bb.emit_func_output(out)
    return bb.get()


def test_a_constant_is_cast_exactly_behind_moves_too() -> None:
    def build(emit: Any) -> Any:
        moved = emit(relax.op.reshape(relax.const(CODES, "float8_e4m3fn"), (2, 127)))
        return relax.op.astype(moved, "float32")

    folded = fold_constants(built(build))
    (constant,) = found(folded)
    want = CODES.astype("float32").reshape(2, 127)
    np.testing.assert_array_equal(array_of(constant).numpy(), want)


def test_a_constant_becomes_float8_by_rounding_to_even_and_saturates() -> None:
    values = np.array([0.0, 0.3, -0.002, 17.0, 1000.0, -1000.0, np.nan], "float32")
    folded = fold_constants(built(lambda emit: relax.op.astype(
        emit(relax.op.astype(relax.const(values), "float8_e4m3fn")), "float32")))  # fmt: skip
    (constant,) = found(folded)
    want = [0.0, 0.3125, -0.001953125, 16.0, 448.0, -448.0, np.nan]
    np.testing.assert_array_equal(array_of(constant).numpy(), want)


def found(mod: Any) -> list[Any]:
    constants: list[Any] = []
    relax.analysis.post_order_visit(
        mod["main"], lambda e: constants.append(e) if isinstance(e, GenericConst) else None
    )
    return constants


def test_a_cpu_takes_constants_that_are_cast_and_refuses_other_float8() -> None:
    x = relax.Var("x", relax.TensorType((254,), "float32"))
    weights = relax.const(CODES, "float8_e4m3fn")
    mod = built(lambda emit, x: relax.op.add(x, emit(relax.op.astype(weights, "float32"))), x)
    got = opinfo.compile(mod, []).run(np.zeros(254, "float32"))
    np.testing.assert_array_equal(np.ravel(got), CODES.astype("float32"))
    wrong = built(lambda emit, x: relax.op.astype(
        emit(relax.op.astype(x, "float8_e4m3fn")), "float32"), x)  # fmt: skip
    with pytest.raises(ValueError, match="of main is float8_e4m3fn, which TVM's code for CPUs"):
        opinfo.compile(wrong, [])
    given = relax.Var("w", relax.TensorType((4,), "float8_e5m2"))
    with pytest.raises(ValueError, match="w of main is float8_e5m2"):
        opinfo.compile(built(lambda emit, w: relax.op.astype(w, "float32"), given), [])


def test_the_reason_still_holds() -> None:
    """TVM's own code for a CPU, without which the refusal is not needed."""
    x = relax.Var("x", relax.TensorType((1,), "float32"))
    mod = built(lambda emit, x: relax.op.astype(
        emit(relax.op.astype(x, "float8_e4m3fn")), "float32"), x)  # fmt: skip
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(np.array([0.001], "float32"))).numpy()
    assert got[0] != np.float32(0.001953125)


def test_float64_is_not_narrow() -> None:
    x = relax.Var("x", relax.TensorType((3,), "float64"))
    values = np.array([0.1, -1e300, np.inf])
    compiled = opinfo.compile(built(lambda emit, x: relax.op.add(x, x), x), [])
    np.testing.assert_array_equal(compiled.run(values), values + values)
