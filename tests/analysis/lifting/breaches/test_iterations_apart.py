"""Iterations that run at the same time and do not meet in memory are read."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis import OpInfo, op_info

from ....common.interpret import interpret
from ....common.mutation import answer, same
from .breach_programs import program

#: Neighbours in which iterations do not meet, or it does not matter.
APART = {
    "an element of its own": """
    t = T.alloc_buffer((8,), "float32")
    for i in T.parallel(8):
        t[i] = x[i]
        out[i] = T.exp(t[i])
""",
    "a buffer of its own": """
    for i in T.parallel(8):
        t = T.alloc_buffer((1,), "float32")
        t[0] = x[i]
        out[i] = T.exp(t[0])
""",
    "one after another": """
    t = T.alloc_buffer((4,), "float32")
    for i in range(8):
        t[i // 2] = x[i]
        out[i] = T.exp(t[i // 2])
""",
    "two elements each": """
    t = T.alloc_buffer((8,), "float32")
    for i in T.parallel(4):
        for j in range(2):
            t[i * 2 + j] = x[i * 2 + j]
        for j in range(2):
            out[i * 2 + j] = T.exp(t[i * 2 + j])
""",
    "the elements backwards": """
    t = T.alloc_buffer((8,), "float32")
    for i in T.parallel(4):
        for j in T.parallel(2):
            t[7 - i * 2 - j] = x[i * 2 + j]
            out[i * 2 + j] = T.exp(t[7 - i * 2 - j])
""",
    "a halo in which all store the same": """
    t = T.alloc_buffer((10,), "float32")
    for i in T.parallel(8):
        for h in range(2):
            if i + h < 8:
                t[i + h] = x[i + h]
        out[i] = T.exp(t[i])
""",
    "the same through two buffers": """
    s = T.alloc_buffer((9,), "float32")
    t = T.alloc_buffer((9,), "float32")
    for i in T.parallel(4):
        for h in range(2):
            s[i * 2 + h] = x[i * 2 + h]
            t[i * 2 + h] = s[i * 2 + h]
        for h in range(2):
            out[i * 2 + h] = T.exp(t[i * 2 + h])
""",
    "conditions keep the iterations apart": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.parallel(8):
        if i % 2 == 0:
            t[i // 2] = x[i]
            out[i] = T.exp(t[i // 2])
        else:
            out[i] = T.exp(x[i])
""",
    "another part for each iteration of a loop outside": """
    t = T.alloc_buffer((4,), "float32")
    for k in range(2):
        for i in T.parallel(4):
            t[i] = x[k * 4 + i]
            out[k * 4 + i] = T.exp(t[i])
""",
    "one parallel loop after another": """
    t = T.alloc_buffer((8,), "float32")
    for i in T.parallel(8):
        t[7 - i] = x[7 - i]
    for i in T.parallel(8):
        out[i] = T.exp(t[i])
""",
    "a parallel loop of one iteration": """
    t = T.alloc_buffer((1,), "float32")
    for i in range(8):
        for j in T.parallel(1):
            t[j] = x[i]
            out[i] = T.exp(t[j])
""",
}


@pytest.mark.parametrize("name", APART)
def test_what_does_not_meet_is_read(name: str) -> None:
    func, value = program(APART[name]), np.linspace(-2.0, 1.5, 8)
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.exp", info
    assert same(interpret(func, [value]), answer(func, info, [value]))
