"""Operations without a result for some operands: a certificate says what it assumes of the data."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.partial import DIVIDES, FITS, SHIFTS

from .test_breaches import converting

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_a_float_that_becomes_an_integer_fits_it(source: str, target: str) -> None:
    info = op_info(converting(source, target, f'T.Cast("{target}", x[i])'))
    assert isinstance(info, OpInfo) and info.name == "relax.astype", info
    assert FITS in info.certificate.assumptions


@pytest.mark.parametrize(
    ("source", "target"),
    [("int32", "int8"), ("uint8", "int32"), ("float32", "bool"), ("float32", "float16")],
)
def test_other_casts_have_a_result_for_all_values(source: str, target: str) -> None:
    info = op_info(converting(source, target, f'T.Cast("{target}", x[i])'))
    assert isinstance(info, Refusal) or FITS not in info.certificate.assumptions


#: What is assumed of ``x`` where an operation with ``x`` or with a literal is executed.
ASSUMES = {
    "T.shift_left(T.{t}(1), x[i])": SHIFTS,
    "T.shift_right(x[i], x[i])": SHIFTS,
    "T.floordiv(T.{t}(7), x[i])": DIVIDES,
    "T.floormod(T.{t}(7), x[i])": DIVIDES,
    "T.truncmod(T.{t}(7), x[i])": DIVIDES,
    "T.shift_right(x[i], T.{t}(3))": "",
    "T.floordiv(x[i], T.{t}(3))": "",
    "x[i] + T.{t}(3)": "",
}


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("value", ASSUMES)
def test_shifts_and_quotients_are_assumed_to_exist(value: str, dtype: str) -> None:
    info = op_info(converting(dtype, dtype, value.format(t=dtype)))
    told = (
        set() if isinstance(info, Refusal) else {SHIFTS, DIVIDES} & {*info.certificate.assumptions}
    )
    assert isinstance(info, Refusal) or told == ({ASSUMES[value]} - {""}), info


@pytest.mark.parametrize("target", ["float32", "float16", "int64"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float64", "bool"])
def test_casts_by_way_of_an_integer_raise_nothing(source: str, target: str) -> None:
    """A float and an integer of one value were given to one prover."""
    for way in ("int8", "int32", "int64", "uint8"):
        info = op_info(converting(source, target, f'T.Cast("{target}", T.Cast("{way}", x[i]))'))
        assert isinstance(info, Refusal) or info.name != "relax.dequantize", info
