"""Reasons are the same in every run: what TVM has no script for is named by its kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tvm

from opinfo.analysis import Refusal, op_info, op_infos
from opinfo.analysis.answer.internal_error import FAULT
from opinfo.analysis.index_map.maps.to_terms import index_map
from opinfo.analysis.lifting.tir.node import script

HEADER = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), "int64"), B: T.Buffer((8,), "int64")):
    for i in range(8):
        {body}
"""
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
SHIFT = "T.LShift(A[i], T.int64(100))"
BODIES = {
    "a shift": f"B[i] = {SHIFT}",
    "a shift to the right": "B[i] = T.RShift(A[i], T.int64(-1))",
    "a shift inside a call": f'B[i] = T.call_extern("int64", "f", {SHIFT})',
    "a shift inside a statement": f'assert {SHIFT} > T.int64(0), "no"',
    "a shift inside a vector": f"B[0:4] = T.Broadcast({SHIFT}, 4)",
}


def program(body: str) -> Any:
    return tvm.script.from_source(HEADER.format(body=body))


@pytest.mark.parametrize("name", BODIES)
def test_no_reason_holds_an_address(name: str) -> None:
    func = program(BODIES[name])
    for found in (op_info(func), op_infos(func)):
        assert isinstance(found, Refusal)
        assert not ADDRESS.search(f"{found.reason} {found.where}"), found


def test_what_has_no_script_is_its_kind_and_operands() -> None:
    found = op_info(program(BODIES["a shift"]))
    assert isinstance(found, Refusal) and found.where == "LShift(A[i], T.int64(100))"


def test_the_error_of_an_index_map_holds_no_address() -> None:
    value = program(f'B[i] = T.Cast("int64", T.Cast("float32", {SHIFT}))').body.body.value.value
    assert "LShift" in script(value) and not ADDRESS.search(script(value))
    with pytest.raises(TypeError, match="result 0 must be an integer, got float32") as e:
        index_map(lambda i: value, 1)
    assert not ADDRESS.search(str(e.value))


POINTERS = {
    "an address": 'B[i] = T.call_pure_extern("int64", "f", T.address_of(A[0]), 0)',
    "a buffer": 'B[i] = T.call_pure_extern("int64", "f", A.data)',
    "a comparison": 'B[i] = T.Cast("int64", T.isnullptr(T.address_of(A[0])))',
    "an index": 'B[T.reinterpret("int64", T.address_of(A[0]))] = A[i]',
}


@pytest.mark.parametrize("name", POINTERS)
def test_a_pointer_is_not_a_number(name: str) -> None:
    func = program(POINTERS[name])
    for found in (op_info(func), op_infos(func)):
        assert isinstance(found, Refusal) and FAULT not in found.reason
        assert "not numeric" in found.reason or "pointer" in found.reason
