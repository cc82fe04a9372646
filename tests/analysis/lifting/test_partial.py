"""Operations without a result for some operands: a certificate says what it assumes of the data."""

from __future__ import annotations

import pytest
import tvm

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos
from opinfo.analysis.certify.assumptions import CANCELS, DIVIDES, FITS, ORDERED, SHIFTS
from opinfo.analysis.lifting.tir.operations import bitwise
from opinfo.analysis.terms.term import CallTerm, Int, as_int, integer, variable

from ..terms.test_lost_bits import converting
from .breaches.breach_programs import HEADER

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
    assumed = (
        set() if isinstance(info, Refusal) else {SHIFTS, DIVIDES} & {*info.certificate.assumptions}
    )
    assert isinstance(info, Refusal) or assumed == ({ASSUMES[value]} - {""}), info


@pytest.mark.parametrize("target", ["float32", "float16", "int64"])
@pytest.mark.parametrize("source", ["float16", "bfloat16", "float64", "bool"])
def test_casts_by_way_of_an_integer_raise_nothing(source: str, target: str) -> None:
    """A float and an integer of one value were given to one prover."""
    for way in ("int8", "int32", "int64", "uint8"):
        info = op_info(converting(source, target, f'T.Cast("{target}", T.Cast("{way}", x[i]))'))
        assert isinstance(info, Refusal) or info.name != "relax.dequantize", info


def test_a_shift_by_many_is_not_written_out() -> None:
    """A literal was tried as the count of another operator: numbers of 256 MB."""
    x = as_int(variable("scalar", "x"))
    shifted = bitwise("shr", x, integer(2**31), "int32")
    assert isinstance(shifted, Int) and isinstance(shifted.atom, CallTerm)


def test_a_maximum_of_data_is_not_a_dimension() -> None:
    """TVM's max was called with a term that is not of integers of 32 or 64 bits."""
    for dtype in ("int8", "uint8"):
        value = f"T.Cast('int64', T.max((x[i] + x[7 - i]) - x[7 - i], T.{dtype}(0)))"
        assert isinstance(op_infos(converting(dtype, "int64", value)), (Chain, Refusal))
        assert isinstance(op_info(converting(dtype, "int64", value)), Refusal)


def test_a_shift_by_the_width_has_no_result() -> None:
    for dtype, by, known in (("int8", 7, True), ("int8", 8, False), ("int8", 31, False)):
        text = f"T.shift_left(T.Cast('{dtype}', x[i]), T.{dtype}({by}))"
        found = op_infos(converting(dtype, dtype, text.replace(f"T.Cast('{dtype}', x[i])", "x[i]")))
        assert isinstance(found, Chain) == known, found
    assert isinstance(op_info(converting("int32", "int32", "T.shift_right(x[i], 31)")), OpInfo)


#: What TVM's simplifier takes for granted of ``value``: LLVM computed other than the operators.
SIMPLIFIED = {
    "T.Not(x[i] < y[i])": ("bool", ORDERED),
    "T.Not(x[i] == y[i])": ("bool", ORDERED),
    "x[i] == x[i]": ("bool", ORDERED),
    "x[i] != x[i]": ("bool", ORDERED),
    "T.Or(x[i] < y[i], y[i] <= x[i])": ("bool", ORDERED),
    "x[i] - x[i]": ("float32", CANCELS),
    "(x[i] + y[i]) - y[i]": ("float32", CANCELS),
    "(x[i] + T.float32(1)) - T.float32(3)": ("float32", CANCELS),
    "x[i] < y[i]": ("bool", ""),
    "x[i] - y[i]": ("float32", ""),
    "(x[i] + y[i]) - T.float32(1)": ("float32", ""),
}


@pytest.mark.parametrize("value", SIMPLIFIED)
def test_what_the_simplifier_takes_for_granted_is_said(value: str) -> None:
    dtype, wanted = SIMPLIFIED[value]
    func = tvm.script.from_source(
        HEADER
        + f"""def main(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"),
         out: T.Buffer((8,), "{dtype}")):
    for i in range(8):
        out[i] = {value}
"""
    )
    chain = op_infos(func)
    assert isinstance(chain, Chain), chain
    for info in (op_info(func), *(s.info for s in chain.steps)):
        if isinstance(info, OpInfo):
            assert {ORDERED, CANCELS} & {*info.certificate.assumptions} == {wanted} - {""}, info
            assert info.certificate.exact == (wanted != CANCELS)


@pytest.mark.parametrize("name", ["equal", "not_equal"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_compared_with_themselves_are_recovered(name: str, dtype: str) -> None:
    """The rule of opinfo asks where they are NaN; a PrimFunc is compared with TVM's rule."""
    sign = {"equal": "==", "not_equal": "!="}[name]
    func = tvm.script.from_source(
        HEADER
        + f"""def main(x: T.Buffer((8,), "{dtype}"), out: T.Buffer((8,), "bool")):
    for i in range(8):
        out[i] = x[i] {sign} x[i]
"""
    )
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == f"relax.{name}"
    assert info.operands == (0, 0) and ORDERED in info.certificate.assumptions
