"""The proof stage by stage: what it takes, and that wrong functions and wrong witnesses fail."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.analysis.terms.integer import floordiv
from opinfo.analysis.terms.term import as_int, integer, variable
from opinfo.layout.model.digit import Digit
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.candidate_rewrite import CandidateRewrite, write_candidate
from opinfo.layout.verify.blockwise import prove_stages
from opinfo.layout.verify.iterators import is_inside
from opinfo.layout.verify.paired_buffers import Correspondence
from opinfo.layout.verify.verify import prove

from ...common.prim_funcs import lowered

OPS = relax.op
CONV = ((2, 8, 6, 6), (8, 8, 3, 3))


def _candidate(op: Any, operands: tuple[Any, ...], texts: str) -> tuple[Any, CandidateRewrite]:
    func = lowered(op, *operands)
    layouts = [None if t == "-" else Layout.parse(t) for t in texts.split()]
    return func, write_candidate(func, layouts)


def _changed(candidate: CandidateRewrite, pattern: str, to: str) -> CandidateRewrite:
    """The candidate with its text changed; the correspondence names the new function's buffers."""
    assert candidate.correspondence is not None
    text, count = re.subn(pattern, to, candidate.func.script())
    assert count, f"{pattern} is not in\n{text}"
    new = tvm.script.from_source(text)
    own = [*candidate.func.params, *candidate.func.body.block.alloc_buffers]
    other = [*new.params, *new.body.block.alloc_buffers]
    buffers = tuple(
        (b, next(d for e, d in zip(own, other, strict=True) if e.same_as(c)), x)
        for b, c, x in candidate.correspondence.buffers
    )
    return CandidateRewrite(new, replace(candidate.correspondence, buffers=buffers))


def _proved(func: Any, candidate: CandidateRewrite) -> Any:
    assert candidate.correspondence is not None
    return prove_stages(func, candidate.func, candidate.correspondence)


@pytest.mark.parametrize("texts", ["NHWC HWIO NHWC", "NCHW4c OIHW4i8o NCHW8c"])
def test_a_convolution_is_proved(texts: str) -> None:
    func, candidate = _candidate(lambda x, w: OPS.nn.conv2d(x, w, padding=1), CONV, texts)
    found = _proved(func, candidate)
    assert found and not found.exact
    assert any("reassociation" in a for a in found.assumptions)
    same = _proved(func, _changed(candidate, "v_ax0", "v_ax0"))
    assert same


def test_sums_in_the_order_that_they_had_are_exact() -> None:
    func, candidate = _candidate(lambda x: OPS.sum(x, axis=[2, 3]), ((2, 8, 3, 4),), "NHWC AB")
    assert _proved(func, candidate).exact
    func, candidate = _candidate(lambda x: OPS.sum(x, axis=[2, 3]), ((2, 8, 3, 4),), "NWHC AB")
    assert not _proved(func, candidate).exact


WRONG = {
    "another element": (r"x1\[v_ry, v_rx", "x1[v_rx, v_ry"),
    "a neighbour": (r"v_ax1 \+ v_ry", "v_ax1 + v_ry + T.int64(-1)"),
    "a shorter loop": (r"ax2, ry, rx, rc, ax3 in T.grid\(T.int64\(2\), T.int64\(6\), T.int64\(6\)",
                       "ax2, ry, rx, rc, ax3 in T.grid(T.int64(2), T.int64(6), T.int64(5)"),
    "another start": (r"T.float32\(0.0\)(?=\n +conv2d)", "T.float32(1.0)"),
    "another operation": (r"v_rc\] \* x1", "v_rc] + x1"),
    "another condition": (r"v_ax1 < T.int64\(7\)", "v_ax1 < T.int64(6)"),
    "a sum of itself": (r"= conv2d_nchw\[([^\]]*)\] \+ pad_temp",
                        r"= conv2d_nchw[\1] + conv2d_nchw[\1] * pad_temp"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_functions_fail(name: str) -> None:
    pattern, to = WRONG[name]
    func, candidate = _candidate(
        lambda x, w: OPS.nn.conv2d(x, w, padding=1), CONV, "NHWC HWIO NHWC"
    )
    wrong = _changed(candidate, pattern, to)
    assert not _proved(func, wrong)
    layouts = [Layout.parse(t) for t in ("NHWC", "HWIO", "NHWC")]
    assert not prove(func, wrong.func, layouts)


def test_the_order_of_an_argmax_counts() -> None:
    func, candidate = _candidate(lambda x: OPS.argmax(x, axis=None), ((4, 6),), "AB -")
    order = r"k0, k1 in T.grid\(T.int64\(4\), T.int64\(6\)\)"
    found = _proved(func, candidate)
    assert found and found.exact
    swapped = _changed(candidate, order, "k1, k0 in T.grid(T.int64(6), T.int64(4))")
    refused = _proved(func, swapped)
    assert not refused and "order" in refused.reason


def test_a_bound_value_is_of_the_time_when_it_was_bound() -> None:
    @T.prim_func(s_tir=True, private=True)
    def func(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.sblock("s"):
                v = T.axis.remap("S", [i])
                before: T.let[T.float32] = a[v]
                a[v] = T.float32(1)
                b[v] = before

    @T.prim_func(s_tir=True, private=True)
    def new(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            with T.sblock("s"):
                v = T.axis.remap("S", [i])
                before: T.let[T.float32] = a[v]  # noqa: F841
                a[v] = T.float32(1)
                b[v] = a[v]

    assert prove_stages(func, func, _identity(func, func))
    assert not prove_stages(func, new, _identity(func, new))


def _identity(func: Any, new: Any) -> Correspondence:
    from opinfo.analysis.blocks.blocks import stages
    from opinfo.analysis.terms.term import as_int

    same = Layout.identity(1)
    buffers = tuple((p, q, same) for p, q in zip(func.params, new.params, strict=True))
    return Correspondence(buffers, tuple({v: as_int(v) for v in s.axes} for s in stages(new)))


def test_a_scan_may_not_be_turned_round() -> None:
    func, new = _scan("i, j in T.grid(4, 8)"), _scan("j, i in T.grid(8, 4)")
    assert _same_loops(func, func)
    refused = _same_loops(func, new)
    assert not refused and "other elements" in refused.reason


def _scan(loops: str) -> Any:
    return tvm.script.from_source(
        f"""# from tvm.script import tirx as T
@T.prim_func(s_tir=True, private=True)
def scan(out: T.Buffer((5, 9), "float32")):
    for {loops}:
        with T.sblock("scan"):
            v, w = T.axis.remap("SS", [i, j])
            out[v + 1, w + 1] = out[v, w + 1] + out[v + 1, w]
"""
    )


def _same_loops(func: Any, new: Any) -> Any:
    from opinfo.analysis.blocks.blocks import stages
    from opinfo.analysis.terms.term import as_int

    pair = ((func.params[0], new.params[0], Layout.identity(2)),)
    return prove_stages(
        func, new, Correspondence(pair, ({v: as_int(v) for v in stages(new)[0].axes},))
    )


def test_a_witness_is_not_trusted() -> None:
    func, candidate = _candidate(OPS.exp, ((4, 6),), "AB AB")
    assert candidate.correspondence is not None
    (at,) = candidate.correspondence.iterators
    v, w = at
    buffers = candidate.correspondence.buffers
    for iterators in ({v: at[w], w: at[v]}, {v: at[v] + 1, w: at[w]}, {v: at[v]}):
        assert not prove_stages(func, candidate.func, Correspondence(buffers, (iterators,)))
    assert not prove_stages(func, candidate.func, Correspondence(buffers, ()))
    assert not prove_stages(func, candidate.func, Correspondence(buffers[:1], (at,)))
    (x, y, same), out = buffers[0], buffers[1]
    assert not prove_stages(
        func, candidate.func, Correspondence(((x, y, Layout.permuted((1, 0))), out), (at,))
    )
    assert not prove_stages(func, candidate.func, Correspondence(((x, out[1], same), out), (at,)))


@pytest.mark.parametrize("high", [2, 4])
def test_channels_in_the_order_of_a_shuffle(high: int) -> None:
    """Each channel is ``c // high`` and ``c % high`` the other way round."""
    func = lowered(OPS.nn.relu, (1, 8, 3, 3))
    swapped = (Digit(1, 1, high), Digit(1, high))
    layouts = [Layout(((Digit(0),), (Digit(2),), (Digit(3),), swapped))] * 2
    candidate = write_candidate(func, layouts)
    assert candidate.correspondence is not None
    found = _proved(func, candidate)
    assert found and found.exact
    (at,) = candidate.correspondence.iterators
    channel = list(at)[1]
    other = {**at, channel: -at[channel] + 7}
    assert not prove_stages(
        func, candidate.func, replace(candidate.correspondence, iterators=(other,))
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_proved_to_be_inside_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(rng.choice([2, 6, 8, 12])) for _ in range(2)]
    axes = [variable("loop", f"v{k}", integer(n)) for k, n in enumerate(sizes)]
    grid = np.meshgrid(*map(np.arange, sizes), indexing="ij")
    p, values = integer(0), np.zeros(sizes, int)
    for v, at in zip(axes, grid, strict=True):
        for k in (1, *rng.choice([2, 3, 4, 6], 2)):
            scale = int(rng.integers(-6, 7))
            p, values = p + floordiv(as_int(v), integer(int(k))) * scale, values + at // k * scale
    for extent in (1, int(values.max()), int(values.max()) + 1, int(values.max()) + 5):
        if extent > 0 and is_inside(p, integer(extent)):
            assert values.min() >= 0 and values.max() < extent


def test_a_number_of_swapped_digits_is_inside_of_its_domain() -> None:
    v = as_int(variable("loop", "v", integer(24)))
    for p in (v * 12 - v // 2 * 23, v * 6 - v // 4 * 23, v // 12 + v % 12 * 2):
        assert is_inside(p, integer(24)) and not is_inside(p, integer(23))
        assert not is_inside(p - 1, integer(24)) and not is_inside(p + 1, integer(24))
