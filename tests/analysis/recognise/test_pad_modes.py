"""The mode of a padding that is read from the input, however its index is written."""

from __future__ import annotations

import pytest
import tvm

from opinfo.analysis import OpInfo, Refusal, op_info

HEADER = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 7), "float32"), out: T.Buffer((4, 12), "float32")):
    for i, j in T.grid(4, 12):
        out[i, j] = x[i, {index}]
"""
BETWEEN = "T.if_then_else(j < 2, {before}, T.if_then_else(9 <= j, {after}, j - 2))"


@pytest.mark.parametrize(
    ("index", "mode"),
    [
        ("T.max(0, T.min(6, j - 2))", "replicate"),
        (BETWEEN.format(before="0", after="6"), "replicate"),
        (BETWEEN.format(before="2 - j", after="14 - j"), "reflect"),
        (BETWEEN.format(before="1 - j", after="15 - j"), None),
    ],
)
def test_the_mode_is_that_of_the_elements_read(index: str, mode: str | None) -> None:
    info = op_info(tvm.script.from_source(HEADER.format(index=index)))
    if mode is None:
        assert isinstance(info, Refusal)
        return
    assert isinstance(info, OpInfo) and info.name == "relax.nn.pad"
    assert info.attrs["pad_mode"] == mode and list(info.attrs["pad_width"]) == [0, 0, 2, 3]
