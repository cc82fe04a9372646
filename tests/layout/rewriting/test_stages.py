"""The stages of PrimFuncs in standard form, and why others have none."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.analysis.blocks.block_terms import Opaque
from opinfo.analysis.blocks.blocks import stages
from opinfo.analysis.terms.term import as_int

from ...common.prim_funcs import lowered


def _conv() -> Any:
    n = tirx.Var("n", "int64")
    return lowered(lambda x, w: relax.op.nn.conv2d(x, w, padding=1), (n, 8, 8, 8), (16, 8, 3, 3))


def test_a_convolution_has_a_padding_stage_and_one_that_reduces() -> None:
    pad, conv = stages(_conv())
    assert repr(pad.reads[0].indices) == "(v0, v1, v2 - 1, v3 - 1)"
    n, _, h, w, r, kh, kw = map(as_int, conv.axes)
    assert conv.reads[0].indices == (n, r, h + kh, w + kw)
    assert repr(conv.writes[0].indices) == "(v0, v1, v2, v3)"
    assert {v.name for v in conv.reduced} == {"v4", "v5", "v6"}
    assert repr(conv.writes[0].shape) == "(n, 16, 8, 8)"
    assert len(conv.writes) == 1 and not pad.reduced


def test_indices_are_in_normal_form() -> None:
    (s,) = stages(lowered(lambda x: relax.op.reshape(x, (6, 4)), (2, 3, 4)))
    assert repr(s.reads[0].indices) == "((v0 // 3), v0 - 3*(v0 // 3), v1)"


def test_a_coordinate_that_data_decide_on_is_unknown() -> None:
    take = lowered(lambda x, i: relax.op.take(x, i, axis=1), (4, 9), ((3,), "int64"))
    (s,) = stages(take)
    (x,) = [a for a in s.reads if len(a.indices) == 2]
    assert x.indices[1] is None and repr(x.indices[0]) == "v0"


def test_several_results_of_one_reduction() -> None:
    first, _ = stages(lowered(lambda x: relax.op.argmax(x, axis=1), (4, 9, 5)))
    assert len(first.writes) == 2 and len(first.reads) == 1


def test_what_a_block_reads_of_other_elements_is_an_access() -> None:
    @T.prim_func(s_tir=True, private=True)
    def scan(x: T.Buffer((8,), "float32"), out: T.Buffer((9,), "float32")) -> None:
        for i in range(8):
            with T.sblock("scan"):
                v = T.axis.remap("S", [i])
                out[v + 1] = out[v] + x[v]

    (s,) = stages(scan)
    assert [repr(a.indices) for a in s.reads] == ["(v0,)", "(v0,)"]


def test_other_forms_are_refused_with_the_reason() -> None:
    @T.prim_func(private=True)
    def plain(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            out[i] = x[i]

    @T.prim_func(s_tir=True, private=True)
    def fused(x: T.Buffer((8,), "float32"), out: T.Buffer((2, 4), "float32")) -> None:
        for i in range(8):
            with T.sblock("fused"):
                v = T.axis.spatial(2, i // 4)
                w = T.axis.spatial(4, i % 4)
                out[v, w] = x[v * 4 + w]

    with pytest.raises(Opaque, match="not a root block"):
        stages(plain)
    with pytest.raises(Opaque, match="uses a loop of another iterator"):
        stages(fused)
    with pytest.raises(Opaque, match="Evaluate"):
        stages(lowered(lambda x: relax.op.median(x, axis=1), (4, 9, 5)))


def test_an_iterator_may_be_a_number_of_loops() -> None:
    @T.prim_func(s_tir=True, private=True)
    def tiled(x: T.Buffer((8, 6), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i_0, k_0, i_1, k_1 in T.grid(2, 3, 4, 2):
            with T.sblock("tiled"):
                v = T.axis.spatial(8, i_0 * 4 + i_1)
                r = T.axis.reduce(6, k_0 * 2 + k_1)
                with T.init():
                    out[v] = T.float32(0)
                out[v] = out[v] + x[v, r]

    (s,) = stages(tiled)
    v, r = s.axes
    assert s.order == ((v, 4), (r, 2), (v, 1), (r, 1))


def test_loops_that_are_not_digits_are_refused() -> None:
    @T.prim_func(s_tir=True, private=True)
    def overlaps(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i, j in T.grid(2, 4):
            with T.sblock("overlaps"):
                v = T.axis.spatial(8, i * 3 + j)
                out[v] = x[v]

    @T.prim_func(s_tir=True, private=True)
    def shared(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
        for i in range(4):
            with T.sblock("shared"):
                v = T.axis.spatial(4, i)
                w = T.axis.spatial(4, i)
                out[v, w] = x[v, w]

    @T.prim_func(s_tir=True, private=True)
    def interleaved(x: T.Buffer((4, 4), "float32"), out: T.Buffer((1,), "float32")) -> None:
        for r_0, q, r_1 in T.grid(2, 4, 2):
            with T.sblock("interleaved"):
                v = T.axis.reduce(4, r_0 * 2 + r_1)
                w = T.axis.reduce(4, q)
                with T.init():
                    out[0] = T.float32(0)
                out[0] = out[0] + x[v, w]

    for func in (overlaps, shared):
        with pytest.raises(Opaque, match="loop"):
            stages(func)
    with pytest.raises(Opaque, match="interleave"):
        stages(interleaved)
