"""Conversions and shifts that lose bits, which terms over unbounded integers must not forget."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import tirx

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.lift import lift

from ..lifting.breaches.breach_programs import HEADER

#: A conversion that loses bits: the types of 8 inputs and 8 outputs, and what is stored.
LOSSES = {
    "shifted left and right": ("int32", "int32", "T.shift_right(T.shift_left(x[i], 28), 28)"),
    "a digit by shifts": ("int32", "int32", "T.shift_right(T.shift_left(x[i], 24), 28)"),
    "the sign of a shifted value": ("int32", "bool", "T.shift_left(x[i], 31) < 0"),
    "a shifted loop variable": (
        "int32",
        "int32",
        "x[T.shift_right(T.shift_left(i, 29), 29) + 4]",
    ),
    "an index that does not fit": (
        "int32",
        "int64",
        'T.Cast("int64", T.Cast("int32", T.Cast("int64", i) * T.int64(3000000000)))',
    ),
    "the least value but one": ("int64", "int64", "T.max(x[i], T.int64(-9223372036854775807))"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_lost_bits_are_not_forgotten(name: str) -> None:
    source, target, value = LOSSES[name]
    func = converting(source, target, value)
    info = op_info(func)
    named = info.name if isinstance(info, OpInfo) else ""
    assert named in ("", "relax.maximum"), info


def converting(source: str, target: str, value: str) -> Any:
    return tvm.script.from_source(
        HEADER
        + f"""def main(x: T.Buffer((8,), "{source}"), out: T.Buffer((8,), "{target}")):
    for i in range(8):
        out[i] = {value}
"""
    )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_shift_is_not_a_product(dtype: str) -> None:
    info = op_info(converting(dtype, dtype, f"T.shift_left(x[i], T.{dtype}(5))"))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.attrs["x2"]) == ("relax.left_shift", 5)
    assert info.certificate.exact


def test_a_shift_of_a_small_index_is_a_product() -> None:
    lifted = lift(converting("int32", "int32", "T.shift_right(T.shift_left(i, 27), 27)"))
    assert lifted.outputs[0].body is lifted.outputs[0].axes[0]


def test_a_float_that_becomes_an_integer_is_assumed_to_fit() -> None:
    func = converting("float32", "int64", 'T.Cast("int64", T.Cast("int32", x[i]))')
    info = op_info(func)
    message = "a float that is cast to an integer fits it"
    assert isinstance(info, Refusal) or message in info.certificate.assumptions
    info = op_info(converting("int32", "int32", "x[i] + 1"))
    assert isinstance(info, OpInfo) and message not in info.certificate.assumptions


@pytest.mark.parametrize("operator", ["likely", "if_then_else", "exp", "pow"])
def test_a_call_with_too_few_operands_is_refused(operator: str) -> None:
    """TVM reads it from JSON."""
    (name,) = {f"prim.{operator}", f"tirx.{operator}"} & set(map(str, tvm.ir.Op.list_op_names()))
    func, empty = converting("float32", "float32", "T.exp(x[i])"), tirx.call_intrin("float32", name)
    body = tvm_ffi.structural_map(func.body, (tvm.ir.Call, lambda _: empty))
    found = op_info(tirx.PrimFunc(func.params, body))
    assert isinstance(found, Refusal) and f"{name} with 0 operands" in found.reason
