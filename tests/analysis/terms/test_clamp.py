"""Clamps that a selection decides vanish; the others stay, and the value is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.analysis import OpInfo, lift, op_info
from tests.analysis.foreign.case import script
from tests.common.interpret import interpret
from tests.common.mutation import answer, same


def _body(formula: str, params: Any = None) -> Any:
    text = f"for i in range(8):\n    out[i] = {formula}"
    lifted = lift(script("x 8; k int32 8; out 8", text)(), params)
    return lifted.params, lifted.outputs[0].body


def _if(condition: str, index: str) -> str:
    return f"T.if_then_else({condition}, x[{index}], T.float32(0))"


DECIDED = [
    ("i < 6", "T.min(i, 5)", "i"),
    ("2 <= i", "T.max(2, i)", "i"),
    ("2 <= i", "T.max(i, 2)", "i"),
    ("i < 6", "T.min(5, i)", "i"),
    ("1 <= i and i < 5", "T.min(T.max(i - 1, 0), 3)", "i - 1"),
    ("1 <= i and i < 5", "T.max(T.min(i - 1, 3), 0)", "i - 1"),
    ("i < 3", "T.max(i, 3)", "3"),
    ("3 <= i", "T.min(i, 3)", "3"),
]


@pytest.mark.parametrize(("condition", "index", "short"), DECIDED)
def test_a_clamp_that_is_decided_vanishes(condition: str, index: str, short: str) -> None:
    params, one = _body(_if(condition, index))
    assert one is _body(_if(condition, short), params)[1]


@pytest.mark.parametrize(
    ("condition", "index", "short"),
    [("i < 7", "T.min(i, 5)", "i"), ("1 <= i", "T.max(i, 2)", "i"), ("i < 4", "T.max(i, 3)", "3")],
)
def test_a_clamp_that_is_open_stays(condition: str, index: str, short: str) -> None:
    params, one = _body(_if(condition, index))
    if condition != "i < 4":
        assert one is not _body(_if(condition, short), params)[1]
    else:  # max(i, 3) for i <= 3
        assert one is _body(_if(condition, short), params)[1]


BOUNDS = ["0 <= k[i] and k[i] < 8", "0 <= k[i] and k[i] < 7", "1 <= k[i]"]


@pytest.mark.parametrize(("bounds", "redundant"), [*zip(BOUNDS, (True, False, False), strict=True)])
def test_bounds_beside_an_equality(bounds: str, redundant: bool) -> None:
    params, one = _body(_if(f"k[i] == i and {bounds}", "i"))
    assert (one is _body(_if("k[i] == i", "i"), params)[1]) == redundant


@pytest.mark.parametrize("index", ["T.min(T.max(i - 1, 0), 5)", "T.max(T.min(i - 1, 5), 0)"])
@pytest.mark.parametrize("condition", ["1 <= i and i < 7", "1 <= i", "i < 7", "2 <= i and i < 7"])
def test_padding_by_clamps_is_right_or_refused(condition: str, index: str) -> None:
    text = f"for i in range(8):\n    out[i] = T.if_then_else({condition}, x[{index}], T.float32(0))"
    func = script("x 6; out 8", text)()
    value = np.linspace(-2.0, 1.5, 6)
    info = op_info(func)
    if isinstance(info, OpInfo):
        assert same(interpret(func, [value]), answer(func, info, [value]))
    else:
        assert condition != "1 <= i and i < 7"
