"""What garbage in the padding could do beside being wrong: each near a function that is safe."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import from_source
from tvm.script import tirx as T

from opinfo.analysis import Refusal
from opinfo.jit.padding import PaddingProof, pad_safe


def gathered(extent: str, index: str, loops: str, value: str) -> Any:
    """``t[loops] = value`` in a workspace that no result is of; x: (extent,), q: (index)."""
    source = f"""
@T.prim_func(private=True, s_tir=True)
def f(a: T.handle, p: T.handle, y: T.Buffer((3,), "float32")) -> None:
    n = T.int64()
    w = T.match_buffer(a, (n,), "float32")
    q = T.match_buffer(p, ({index}), "int32")
    x = T.alloc_buffer(({extent},), "float32")
    t = T.alloc_buffer((n, n + 4), "float32")
    for i in range({extent}):
        x[i] = T.float32(0)
    for i, j in T.grid({loops}):
        t[i, j] = {value}
    for i in range(3):
        y[i] = T.float32(1)
"""
    return from_source(source, extra_vars={"T": T})


@pytest.mark.parametrize(
    ("extent", "index", "loops", "value", "content"),
    [("10", "n,", "n, 4", "x[q[i]]", 0), ("10", "n,", "n, 4", "x[T.min(T.max(q[i], 0), 9)]", None),
     ("10", "n,", "n, 4", "x[T.min(T.max(q[i], 0), 10)]", 0),
     ("10", "n, n", "n, n", "x[q[i, j]]", 0), ("10", "4,", "n, 4", "x[q[j]]", None),
     ("n", "n,", "n, 4", "x[q[i]]", 0)],
)  # fmt: skip
def test_data_that_is_used_in_bounds_at_n_is_padded_with_zeros(
    extent: str, index: str, loops: str, value: str, content: int | None
) -> None:
    found = pad_safe(gathered(extent, index, loops, value), "n")
    assert isinstance(found, PaddingProof), found
    assert {g.param: g.content for g in found.inputs}.get(1) == content


@pytest.mark.parametrize(
    ("extent", "index", "loops", "value", "why"),
    [("10", "n,", "n, n - 1", "x[q[i]]", "under a condition"),
     ("10", "2 * n,", "n, 4", "x[q[i]]", "without using every element of a parameter"),
     ("10", "n, n", "n, 4", "x[q[i, i]]", "without using every element of a parameter"),
     ("10", "n,", "n, 4", "x[q[i] + 10]", "is out of bounds"),
     ("10", "n,", "n, 4", "x[q[i] - 1]", "is out of bounds"),
     ("10", "n,", "n, 4", "w[i] + x[q[i] - 1]", "is out of bounds"),
     ("10", "n,", "n, 4", "T.exp(x[q[i] - 1])", "is out of bounds"),
     ("10", "n,", "n, 4", "T.if_then_else(j < 2, x[q[i]], w[i])", "under a condition"),
     ("10", "n,", "n, 4", "T.Select(j < 2, w[i], x[q[i]])", "under a condition"),
     ("10", "n,", "n, 4", "x[q[i] + j]", "by more than one element"),
     ("20 - n", "4,", "n, 4", "x[q[j]]", "by more than one element")],
)  # fmt: skip
def test_data_that_may_be_used_otherwise_is_refused(
    extent: str, index: str, loops: str, value: str, why: str
) -> None:
    """A loop that does not run at n = 1, elements that are only read at N, another place."""
    found = pad_safe(gathered(extent, index, loops, value), "n")
    assert isinstance(found, Refusal) and why in found.reason, found


@T.prim_func(private=True, s_tir=True)
def by_size(p: T.handle, q: T.handle) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "int64")
    y = T.match_buffer(q, (n,), "int64")
    for i in range(n):
        y[i] = x[i] // T.max(n, 4)


@T.prim_func(private=True, s_tir=True)
def by_gap(p: T.handle, y: T.Buffer((1,), "int64")) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "int64")
    t = T.alloc_buffer((1,), "int64")
    t[0] = x[0] // (n - 4)
    y[0] = x[0]


def test_a_divisor_made_of_sizes_may_be_zero_at_another_size() -> None:
    found = pad_safe(by_gap, "n")
    assert isinstance(found, Refusal) and "may be zero" in found.reason, found
    assert "may be zero" not in str(pad_safe(by_size, "n"))
