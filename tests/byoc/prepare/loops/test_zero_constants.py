"""Products with 0 and quotients of it are those of numpy for all floats; bools are not summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.byoc.codegen.failed_build import FailedBuild

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
ops = relax.op
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -2, 3.4e38], "float32")
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "x * 0": lambda x, zero: ops.multiply(x, zero),
    "0 * x": lambda x, zero: ops.multiply(zero, x),
    "0 / x": lambda x, zero: ops.divide(zero, x),
    "x / 0": lambda x, zero: ops.divide(x, zero),
}


def module(make: Callable[[Any], Any], shape: list[Any], dtype: str) -> tvm.IRModule:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(make(x))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_is_multiplied(name: str, zero: float) -> None:
    constant = np.array(zero, "float32")
    with np.errstate(all="ignore"):
        x, _, y = name.split()
        a, b = (SPECIAL if operand == "x" else constant for operand in (x, y))
        expected = a * b if "*" in name else a / b
    for shape in ([8], [tvm.tirx.Var("n", "int64")], []):
        mod = module(lambda x: CASES[name](x, relax.const(constant)), shape, "float32")
        compiled = opinfo.compile(mod, [])
        calls = [SPECIAL] if shape else [np.asarray(v) for v in SPECIAL]
        results = [compiled.run(x) for x in calls]
        result = np.array([np.asarray(r) for r in results]).reshape(8)
        np.testing.assert_array_equal(result, expected)
        signed = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result)[signed], np.signbit(expected)[signed])


@pytest.mark.parametrize("name", ["x * 0", "0 * x"])
def test_numbers_and_tensors_are_multiplied_in_both_orders(name: str) -> None:
    """Operands may be numbers of TIR, which have no shape."""
    number = tvm.tirx.FloatImm("float32", 0.0)
    mod = module(lambda x: CASES[name](x, number), [8], "float32")
    with np.errstate(all="ignore"):
        expected = SPECIAL * np.float32(0)
    np.testing.assert_array_equal(np.asarray(opinfo.compile(mod, []).run(SPECIAL)), expected)


@pytest.mark.parametrize("make", [ops.cumsum, ops.cumprod])
def test_sums_of_bools_are_refused_in_a_line(make: Any) -> None:
    mod = module(lambda x: make(x, 0), [4], "bool")
    text = (
        r"^TVM cannot build cum(sum|prod): it adds or multiplies bools; cast them to int32 first$"
    )
    with pytest.raises(FailedBuild, match=text):
        opinfo.compile(mod, [])
    cast = module(lambda x: make(ops.astype(x, "int32"), 0), [4], "bool")
    bools = np.array([1, 1, 0, 1], bool)
    expected = (np.cumsum if make is ops.cumsum else np.cumprod)(bools)
    np.testing.assert_array_equal(np.asarray(opinfo.compile(cast, []).run(bools)), expected)
