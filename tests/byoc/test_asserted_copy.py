"""PrimFuncs that copy and assert are recognised by their code."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import tirx as T

from opinfo.byoc.matching.asserted_copy import asserted_copy

HEAD = "def f(x: T.Buffer((4, 4), 'int32'), y: T.Buffer((4,), 'int64'), out: T.Buffer((4, 4), {})):"
CHECK = """
    for i, j in T.grid(4, 4):
        assert (T.Cast('int64', x[i, j]) >= T.int64(-3)
                and T.Cast('int64', x[i, j]) <= T.int64(2)), ''
"""
COPY = """
    for i, j in T.grid(4, 4):
        out[i, j] = x[i, j]
"""
#: TVM drops what it marks, and the assertions in it.
SKIP = "\n    with T.attr(0, 'pragma_debug_skip_region', 1):"
LOOP = """i in T.serial(4, annotations={'pragma_debug_skip_region': 1}):
      for j in T.serial(4)"""
COPIES = {
    "each element": (CHECK + COPY, (-3.0, 2.0)),
    "two ranges": (CHECK + CHECK.replace("-3", "-1") + COPY, (-1.0, 2.0)),
    "one end": (CHECK.replace(">=", "!=") + COPY, None),
    "some elements": (CHECK.replace("grid(4, 4)", "grid(4, 3)") + COPY, None),
    "one column": (CHECK.replace("[i, j]", "[i, 0]") + COPY, None),
    "the diagonal": (CHECK.replace("[i, j]", "[i, i]") + COPY, None),
    "either end": (CHECK.replace(" and ", " or ") + COPY, None),
    "a cast that wraps around": (CHECK.replace("'int64', x", "'int8', x")
                                 .replace("T.int64", "T.int8") + COPY, None),
    "a sum": (CHECK.replace("x[i, j]) <=", "x[i, j] + 1) <=") + COPY, None),
    "another tensor": (CHECK.replace("x[i, j]", "y[i]") + COPY, None),
}  # fmt: skip
OTHERS = {
    "no assertion": COPY,
    "no copy": CHECK,
    "two copies": CHECK + COPY + COPY,
    "moved elements": CHECK + COPY.replace("= x[i, j]", "= x[j, i]"),
    "a part": CHECK + COPY.replace("grid(4, 4)", "grid(4, 3)"),
    "a loop that never runs": CHECK + COPY.replace("j in T.grid(4, 4", "j, k in T.grid(4, 4, 0"),
    "one element": CHECK + COPY.replace("[i, j]", "[i, 0]"),
    "a sum": CHECK + COPY.replace("= x[i, j]", "= x[i, j] + 1"),
    "a condition": CHECK + COPY.replace("        out", "        if i < 3:\n            out"),
    "a write to an operand": CHECK + COPY + "\n    y[0] = T.int64(1)\n",
    "another operand": CHECK + COPY.replace("= x[i, j]", "= T.Cast('int32', y[i])"),
    "a call": CHECK + COPY + "\n    T.evaluate(T.call_extern('int32', 'g'))\n",
    "assertions that TVM drops": SKIP + CHECK.replace("\n", "\n    ") + COPY,
    "a copy that TVM drops": CHECK + SKIP + COPY.replace("\n", "\n    "),
    "a loop that TVM drops": CHECK.replace("i, j in T.grid(4, 4)", LOOP) + COPY,
    "a call in a condition": CHECK.replace("T.int64(2)", "T.call_extern('int64', 'g')") + COPY,
}  # fmt: skip


def _func(body: str, dtype: str = "'int32'") -> Any:
    from tvm.script import from_source

    text = "# from tvm.script import tirx as T\n@T.prim_func(private=True, s_tir=True)\n"
    return from_source(text + HEAD.format(dtype) + body, {"T": T})


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_asserts(name: str) -> None:
    body, within = COPIES[name]
    copy = asserted_copy(_func(body))
    assert copy is not None and copy.within == within


@pytest.mark.parametrize("name", OTHERS)
def test_what_may_do_more(name: str) -> None:
    assert asserted_copy(_func(OTHERS[name])) is None


def test_a_copy_of_another_dtype() -> None:
    body = CHECK + COPY.replace("= x[i, j]", "= T.Cast('int64', x[i, j])")
    assert asserted_copy(_func(body, "'int64'")) is None
