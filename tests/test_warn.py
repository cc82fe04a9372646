"""A warning points at the user's line, however deep opinfo or TVM is when it is issued."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import tvm

from opinfo import transform
from opinfo.analysis import op_info, recogniser, recogniser_scope
from opinfo.byoc.matching.diagnose import FallbackOp

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
        for i in T.serial(4):
            out[i] = T.exp(x[i])
"""
MODULE = tvm.script.from_source(SOURCE)


def _fail(*operands: Any) -> Any:
    raise ValueError("injected")


@pytest.fixture(autouse=True)
def _failing_recogniser() -> Iterator[None]:
    with recogniser_scope():
        recogniser("failing", precedence=1, ops=("relax.exp",))(_fail)
        yield


CALLS: dict[str, Callable[[], Any]] = {
    "a function": lambda: op_info(MODULE["main"]),
    "a pass": lambda: transform.AnnotateOpInfo()(MODULE),
    "passes in sequence": lambda: tvm.transform.Sequential([transform.AnnotateOpInfo()])(MODULE),
    "an attribute": lambda: FallbackOp("lv", "op", "it is not", "this").mend,
    "a module's attribute": lambda: import_module("opinfo.jit").Told,
    "an import": lambda: __import__("opinfo.byoc.abi"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_line_outside_is_named(
    call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "opinfo.byoc.abi", raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    lines = {(w.filename, w.lineno) for w in caught}
    assert lines == {(__file__, call.__code__.co_firstlineno)}
