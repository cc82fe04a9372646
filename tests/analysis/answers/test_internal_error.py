"""What the analysis itself does wrong: a refusal with the line, never an exception."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from opinfo.analysis import Refusal, layout_normalised, op_info, op_infos
from opinfo.analysis.answer.internal_error import FAULT

EXP = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):
    for i in range(8):
        out[i] = T.exp(x[i])
"""


@pytest.mark.parametrize(
    ("question", "place"),
    [
        (op_info, "opinfo.analysis.answer.recover.lift"),
        (op_info, "opinfo.analysis.answer.recover.recover"),
        (layout_normalised, "opinfo.analysis.answer.recover.lift"),
        (op_infos, "opinfo.analysis.chain.define"),
        (op_infos, "opinfo.analysis.chain.segment"),
    ],
)
def test_a_fault_is_a_refusal_that_names_its_line(
    question: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: Any, **__: Any) -> Any:
        raise AssertionError("two\nlines")

    func = tvm.script.from_source(EXP)
    assert question(func)
    monkeypatch.setattr(place, faulty)
    found = question(func)
    assert isinstance(found, Refusal)
    assert found.reason.startswith(f"{FAULT}: AssertionError: two lines (")
    assert found.reason.endswith(f"{__file__}:{faulty.__code__.co_firstlineno + 1})")
