"""Iterations that run at the same time and meet in memory are refused."""

from __future__ import annotations

import pytest

from opinfo.analysis import Refusal, op_info

from .breach_programs import program

#: Two iterations of a parallel loop store into or load from one element, and it matters.
MEET = {
    "two iterations share an element that each stores and loads": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.parallel(8):
        t[i // 2] = x[i]
        out[i] = t[i // 2]
""",
    "one element for all": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.parallel(8):
        t[0] = x[i]
        out[i] = t[0]
""",
    "a store that a later one hides": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.parallel(8):
        t[0] = x[i]
        out[i] = t[0]
        t[0] = T.float32(2)
""",
    "a remainder of the iteration": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.parallel(8):
        t[i % 4] = x[i]
        out[i] = t[i % 4]
""",
    "the next iteration's element is read": """
    t = T.alloc_buffer((9,), "float32")
    for i in range(8):
        t[i] = x[i]
    t[8] = T.float32(0)
    for j in T.parallel(8):
        t[j] = t[j + 1]
    for i in range(8):
        out[i] = t[i]
""",
    "the next iteration's element is stored": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.parallel(8):
        t[i + 1] = x[i]
        t[i] = T.float32(2)
    for i in range(8):
        out[i] = t[i]
""",
    "it is stored, loaded and stored again": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.parallel(8):
        t[i + 1] = x[i]
        out[i] = t[i + 1]
        t[i] = T.float32(2)
""",
    "lanes of two statements store into one element": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.vectorized(8):
        t[i + 1] = x[i]
        t[i] = T.float32(2)
        out[i] = t[i + 1]
""",
    "lanes of two statements": """
    t = T.alloc_buffer((9,), "float32")
    for m in range(9):
        t[m] = T.float32(0)
    for i in T.vectorized(8):
        t[i] = x[i]
        out[i] = t[i + 1]
""",
    "lanes share an element": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.vectorized(8):
        t[i // 2] = x[i]
        out[i] = t[i // 2]
""",
    "virtual threads share an element": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.thread_binding(8, "vthread.x"):
        t[i // 2] = x[i]
        out[i] = t[i // 2]
""",
    "threads share an element": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i // 2] = x[i]
        out[i] = t[i // 2]
""",
    "blocks share an element": """
    t = T.alloc_buffer((4,), "float32")
    for b in T.thread_binding(4, "blockIdx.x"):
        for i in T.thread_binding(2, "threadIdx.x"):
            t[b // 2 + i * 2] = x[b * 2 + i]
            out[b * 2 + i] = t[b // 2 + i * 2]
""",
    "threads share an element of shared memory in one statement": """
    t = T.alloc_buffer((4,), "float32", scope="shared")
    for i in T.thread_binding(8, "threadIdx.x"):
        t[i // 2] = x[i]
        out[i] = t[i // 2]
""",
    "the outer one of two parallel loops": """
    t = T.alloc_buffer((2,), "float32")
    for i in T.parallel(4):
        for j in T.parallel(2):
            t[j] = x[i * 2 + j]
            out[i * 2 + j] = t[j]
""",
    "the inner one of two parallel loops": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.parallel(4):
        for j in T.parallel(2):
            t[i] = x[i * 2 + j]
            out[i * 2 + j] = t[i]
""",
    "both together": """
    t = T.alloc_buffer((5,), "float32")
    for i in T.parallel(4):
        for j in T.parallel(2):
            t[i + j] = x[i * 2 + j]
            out[i * 2 + j] = t[i + j]
""",
    "a loop inside passes the element of another iteration": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.parallel(4):
        for k in range(3):
            t[i * 2 + k] = x[i * 2]
        for k in range(2):
            out[i * 2 + k] = t[i * 2 + k]
""",
    "values pass through what all share": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.parallel(8):
        t[0] = T.float32(0)
        for k in range(3):
            t[0] = t[0] + x[i]
        out[i] = t[0]
""",
    "an accumulation in a halo that iterations share": """
    t = T.alloc_buffer((10,), "float32")
    for i in T.parallel(8):
        for h in range(3):
            t[i + h] = T.float32(0)
            for k in range(8):
                t[i + h] = t[i + h] + x[k]
        out[i] = t[i] + t[i + 1] + t[i + 2]
""",
    "a value in a loop that is not always the same": """
    t = T.alloc_buffer((1,), "float32")
    for i in T.parallel(8):
        for k in range(2):
            t[0] = x[k]
        out[i] = t[0]
""",
    "the same value, which other iterations may have stored before": """
    t = T.alloc_buffer((1,), "float32")
    t[0] = T.float32(1)
    for i in T.parallel(8):
        out[i] = t[0]
        t[0] = T.float32(2)
""",
    "a place in memory that the iteration changes": """
    t = T.alloc_buffer((16,), "float32")
    for i in T.parallel(8):
        n = T.alloc_buffer((1,), "int32")
        n[0] = 0
        for k in range(8):
            t[i + n[0]] = x[i]
            out[i] = t[i + n[0]]
            n[0] = n[0] + 1
""",
    "a place that is another one at another time": """
    t = T.alloc_buffer((9,), "float32")
    for i in T.parallel(8):
        n = T.alloc_buffer((1,), "int32")
        n[0] = 0
        for k in range(2):
            t[i + n[0]] = T.float32(2)
        n[0] = 1
        for k in range(2):
            t[i + n[0]] = x[i]
        for k in range(2):
            out[i] = t[i + n[0]]
""",
    "a place that data says": """
    p = T.alloc_buffer((8,), "int32")
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        p[i] = i // 2
    for i in T.parallel(8):
        t[p[i]] = x[i]
        out[i] = t[p[i]]
""",
    "under conditions that do not keep iterations apart": """
    t = T.alloc_buffer((4,), "float32")
    for i in T.parallel(8):
        if i < 6:
            t[i // 2] = x[i]
            out[i] = t[i // 2]
        else:
            out[i] = x[i]
""",
}


REASONS = (
    "access each other's elements",
    "store to the same element",
    "it is unknown which iteration writes an element",
    "a loop computes the address of its store",
    "only one of the two has parallel iterations that may store to one element",
)


@pytest.mark.parametrize("name", MEET)
def test_races_are_refused(name: str) -> None:
    info = op_info(program(MEET[name]))
    assert isinstance(info, Refusal), info
    assert any(reason in info.reason for reason in REASONS), info
