"""Loops whose iterations see each other's writes: lifted right or refused, never wrong."""

from __future__ import annotations

import pytest
from opinfo.analysis.from_tir import Unliftable
from opinfo.analysis.lift import lift
from tvm.script import from_source

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((6,), "float32"), out: T.Buffer((6,), "float32")):
    s = T.alloc_buffer((1,))
    for j in range(6):
        out[j] = T.float32(1)
"""


def _lifted(body: str) -> str:
    return repr(lift(from_source(_HEAD + body)))


def test_update_in_one_iteration_is_counted_once() -> None:
    text = _lifted("""
    for i in range(6):
        if i == 3:
            out[0] = out[0] + x[i]
""")
    assert "x[r0_0] if r0_0 - 3 == 0 else 0.0" in text


@pytest.mark.parametrize(
    "body",
    [
        """
    for i in range(6):
        out[i] = T.float32(5)
        if i >= 2:
            out[0] = out[0] + x[i]
""",
        """
    for i in range(6):
        if i >= 2:
            out[0] = out[0] + x[i]
        out[5 - i] = T.float32(5)
""",
        """
    for i in range(6):
        if i < 2:
            out[0] = T.float32(7)
        if i >= 2:
            out[0] = out[0] + x[i]
""",
        """
    for i in range(5):
        out[i + 1] = out[i] + x[i]
""",
    ],
    ids=["reset by another store", "overwritten later", "reset twice", "recurrence"],
)
def test_other_stores_to_a_sum_are_refused(body: str) -> None:
    with pytest.raises(Unliftable):
        _lifted(body)
