"""Programs that once got, or could get, a wrong answer: each is answered rightly or refused."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis import OpInfo, Refusal, op_info

from ....common.interpret import interpret
from ....common.mutation import answer, same
from .breach_programs import program

#: One float input of 8 elements, one output of 8; what the interpreter says is the truth.
PROGRAMS = {
    "a condition on a value that is overwritten before it": """
    t = T.alloc_buffer((8,), "float32")
    s = T.alloc_buffer((1,), "float32")
    for i in range(8):
        t[i] = x[i]
        out[i] = x[i]
    for i in range(8):
        s[0] = t[i]
        t[i] = T.float32(0)
        if s[0] < T.float32(0):
            out[i] = T.float32(0)
""",
    "a loop that starts at a value that has changed": """
    p = T.alloc_buffer((8,), "int32")
    for i in range(8):
        p[i] = i
    for i in range(8):
        p[i] = 7 - p[i]
        for j in range(p[i], p[i] + 1):
            out[i] = x[j]
""",
    "a binding used in a loop after a store": """
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        t[i] = x[i]
    for i in range(8):
        v: T.let[T.float32] = t[i]
        t[i] = T.float32(0)
        for j in range(1):
            out[i] = v
""",
    "a guard that pins a loop beyond its range": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in range(8):
        for i in range(4):
            if i == j:
                out[j] = x[j]
""",
    "a guard that reads what the loop adds to": """
    for i in range(8):
        out[i] = T.float32(0)
        for k in range(8):
            if out[i] < T.float32(1):
                out[i] = out[i] + x[k]
""",
    "an update in one iteration only": """
    for i in range(8):
        out[i] = T.float32(0)
    for i in range(8):
        for k in range(8):
            if k == 3:
                out[i] = out[i] + x[k]
""",
    "a binding outside a loop that changes what it was read from": """
    for j in range(8):
        out[j] = T.float32(0)
    for j in range(8):
        v: T.let[T.float32] = out[j]
        for i in range(8):
            out[j] = v + x[i]
""",
    "a place that the loop finds as it goes": """
    n = T.alloc_buffer((1,), "int32")
    n[0] = 0
    for i in range(8):
        out[i] = T.float32(0)
    for i in range(8):
        if x[i] > T.float32(0):
            out[n[0]] = x[i]
            n[0] = n[0] + 1
""",
    "a scan that starts at the second element": """
    for i in range(8):
        out[i] = x[i]
    for i in range(1, 7):
        out[i + 1] = out[i] + x[i + 1]
""",
    "an exclusive scan shifted by two": """
    out[0] = T.float32(0)
    out[1] = T.float32(0)
    for i in range(6):
        out[i + 2] = out[i + 1] + x[i]
""",
    "a scan from the other end": """
    out[7] = x[7]
    for i in range(7):
        out[6 - i] = out[7 - i] + x[6 - i]
""",
    "a scan of what it overwrites": """
    for i in range(8):
        out[i] = x[i]
    for i in range(7):
        out[i + 1] = out[i] + out[i + 1] * x[i + 1]
""",
    "a running sum that is reset": """
    s = T.alloc_buffer((1,), "float32")
    s[0] = T.float32(0)
    for i in range(8):
        s[0] = s[0] + x[i]
        out[i] = s[0]
        if i == 4:
            s[0] = T.float32(0)
""",
    "a reset in a later iteration": """
    for i in range(8):
        out[i] = T.float32(0)
        for k in range(8):
            if k == 2:
                out[i] = T.float32(0)
            out[i] = out[i] + x[k]
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_answered_rightly_or_refused(name: str) -> None:
    func = program(PROGRAMS[name])
    value = np.linspace(-2.0, 1.5, 8)
    expected = interpret(func, [value])
    info = op_info(func)
    if isinstance(info, OpInfo):
        assert same(expected, answer(func, info, [value])), info


REFUSED = {
    "parallel iterations": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.vectorized(8):
        t[0] = x[i]
        out[i] = t[0]
""",
    "different extents": """
    for i in T.thread_binding(8, "threadIdx.x"):
        for j in T.thread_binding(4, "threadIdx.x"):
            out[j] = x[j]
""",
    "writes no element of a parameter": """
    for i in T.thread_binding(8, "threadIdx.x"):
        for j in T.thread_binding(8, "threadIdx.x"):
            if i != j:
                out[j] = x[j]
""",
    "threads store to the same": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in T.thread_binding(8, "threadIdx.x"):
        out[0] = out[0] * T.float32(0.5) + x[j]
""",
    "to the same element": """
    for i in range(8):
        out[i] = T.float32(0)
    for j in T.thread_binding(8, "threadIdx.x"):
        out[0] = x[j]
""",
    "read before it is written": """
    t = T.alloc_buffer((8,), "float32", scope="shared")
    for i in T.thread_binding(8, "blockIdx.x"):
        t[i] = x[i]
    for i in T.thread_binding(8, "blockIdx.x"):
        out[i] = t[7 - i]
""",
    "before it is written": """
    t = T.alloc_buffer((8,), "float32", scope="local")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i] = x[i]
    for i in T.thread_binding(8, "threadIdx.x"):
        out[i] = t[7 - i]
""",
    "two or more iterations before": """
    a = T.alloc_buffer((11,), "float32")
    for m in range(11):
        a[m] = x[m % 8]
    for k in range(8):
        for j in range(3):
            if j == 0:
                out[k] = T.float32(-3.4028234663852886e38)
            out[k] = T.max(out[k], a[j + k + 1])
            a[j + k] = T.float32(0)
""",
    "a buffer local to a thread": """
    t = T.alloc_buffer((1,), "float32", scope="local")
    t[0] = T.float32(1)
    for i in T.thread_binding(8, "vthread.x"):
        t[0] = x[i]
    for i in range(8):
        out[i] = t[0]
""",
    "local to a thread is read": """
    t = T.alloc_buffer((1,), "float32", scope="shared")
    t[0] = T.float32(1)
    for i in T.thread_binding(8, "blockIdx.x"):
        t[0] = x[i]
    for i in range(8):
        out[i] = t[0]
""",
    "without a barrier": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i + 1] = x[i]
        t[i] = T.float32(2)
    for i in range(8):
        out[i] = t[i]
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_breaches_are_refused_with_their_reason(reason: str) -> None:
    info = op_info(program(REFUSED[reason]))
    assert isinstance(info, Refusal) and reason in info.reason, info


@pytest.mark.parametrize("stages", [12, 40])
def test_shared_terms_are_not_written_out(stages: int) -> None:
    body = "".join(f"    t{k} = T.alloc_buffer((8,), 'float32')\n" for k in range(stages))
    last = "x"
    for k in range(stages):
        body += f"    for i in range(8):\n        t{k}[i] = {last}[i] + {last}[i] * {last}[7 - i]\n"
        last = f"t{k}"
    info = op_info(program(body + f"    for i in range(8):\n        out[i] = {last}[i]\n"))
    assert isinstance(info, Refusal) and len(repr(info)) < 1000
