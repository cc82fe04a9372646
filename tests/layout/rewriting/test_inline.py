"""Stages that are inlined into their readers: which, that it is right, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.analysis.blocks.blocks import stages
from opinfo.analysis.results.op_info import Certificate
from opinfo.analysis.terms.term import as_int
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.inline import inlined
from opinfo.layout.rewrite.rewrite import Rewritten, rewrite
from opinfo.layout.verify.blockwise import prove_stages
from opinfo.layout.verify.paired_buffers import Correspondence

from ...common.prim_funcs import lowered
from .. import oracle

OPS = relax.op
NHWC = Layout.parse("NHWC")


def _names(func: Any) -> list[str]:
    return [str(s.block.name_hint) for s in stages(func)]


def test_a_normalisation_passes_over_its_image_once() -> None:
    func = lowered(lambda *a: OPS.nn.batch_norm(*a, axis=1, training=False),
                   (2, 6, 3, 5), *[(6,)] * 4)  # fmt: skip
    layouts = [NHWC, None, None, None, None, NHWC, None, None]
    found = rewrite(func, layouts)
    assert isinstance(found, Rewritten)
    certificate = found.certificate  # the product with gamma goes into the sum with beta
    assert not certificate.exact and any("contracts" in a for a in certificate.assumptions)
    wide = [s for s in stages(found.func) if len(s.writes[0].shape) == 4
            and s.writes[0].shape[1].const != 1]  # fmt: skip
    assert len(wide) == 1 and len(wide[0].reads) == 5, found.func
    oracle.check(func, found.func, layouts, positive=(4,))


def test_a_copy_that_goes_does_not_take_what_it_copies_into_more_iterations() -> None:
    """t = exp(x); u = t; out = Σ u: u goes, t stays, or exp would be in the sum."""
    func = tvm.script.from_source("""# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), o: T.Buffer((4,), "float32")):
    t = T.sblock_alloc_buffer((8,))
    u = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("t"):
            a = T.axis.spatial(8, i)
            t[a] = T.exp(x[a])
    for i in range(8):
        with T.sblock("u"):
            a = T.axis.spatial(8, i)
            u[a] = t[a]
    for i, j in T.grid(4, 8):
        with T.sblock("o"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                o[a] = T.float32(0)
            o[a] = o[a] + u[b]
""")
    assert _names(inlined(func, stages(func))) == ["t", "o"]


@pytest.mark.parametrize("padding, names", [(0, ["conv2d_nchw"]), (1, ["pad_temp", "conv2d_nchw"])])
def test_only_a_padding_by_nothing_goes(padding: int, names: list[str]) -> None:
    func = lowered(lambda x, w: OPS.nn.conv2d(x, w, padding=padding), (2, 8, 6, 6), (4, 8, 3, 3))
    layouts = [NHWC, Layout.parse("HWIO"), NHWC]
    for order in ("layout", "tiled"):
        found = rewrite(func, layouts, order)
        assert isinstance(found, Rewritten) and _names(found.func) == names
        oracle.check(func, found.func, layouts)


def test_what_is_read_twice_or_by_more_iterations_stays() -> None:
    softmax = lowered(lambda x: OPS.nn.softmax(x, axis=1), (2, 8, 3))
    assert _names(inlined(softmax, stages(softmax))) == _names(softmax)
    variance = lowered(lambda x: OPS.variance(x, axis=[2]), (2, 3, 8))
    assert len(_names(inlined(variance, stages(variance)))) < len(_names(variance))
    matmul = _twice("t[v] = x[v] * x[v]", "for j, k in T.grid(4, 8)", "SR", "t[w]")
    assert _names(inlined(matmul, stages(matmul))) == ["t", "u"]


def _twice(first: str, loops: str, kinds: str, read: str) -> Any:
    """A stage that defines `t`, and a sum over its elements, by another."""
    return tvm.script.from_source(
        f"""# from tvm.script import tirx as T
@T.prim_func(s_tir=True, private=True)
def main(x: T.Buffer((8,), "float32"), out: T.Buffer((4,), "float32")):
    t = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("t"):
            v = T.axis.remap("S", [i])
            {first}
    {loops}:
        with T.sblock("u"):
            u, w = T.axis.remap("{kinds}", [j, k])
            with T.init():
                out[u] = T.float32(0)
            out[u] = out[u] + {read}
"""
    )


# -------------------------------------------------------------------------------- the proof


DEFINE = "t[v] = x[v] + T.float32(1)"
READ = "out[v] = t[7 - v] * T.float32(2)"
INLINED = "out[v] = (x[7 - v] + T.float32(1)) * T.float32(2)"


def _function(*stores: str, inner: bool = True) -> Any:
    """A stage for each store, and a buffer `t` inside."""
    nests = [
        f"""    for i in range(8):
        with T.sblock("s{k}"):
            v = T.axis.remap("S", [i])
            {store}
"""
        for k, store in enumerate(stores)
    ]
    types = ", ".join(f'{name}: T.Buffer((8,), "float32")' for name in ("x", "out", "other"))
    buffer = "    t = T.sblock_alloc_buffer((8,))\n" if inner else ""
    text = f"@T.prim_func(s_tir=True, private=True)\ndef main({types}):\n{buffer}"
    return tvm.script.from_source(f"# from tvm.script import tirx as T\n{text}{''.join(nests)}")


def _proved(func: Any, new: Any) -> Any:
    """With `t` inlined."""
    one = Layout.identity(1)
    pairs = tuple((p, q, one) for p, q in zip(func.params, new.params, strict=True))
    at = tuple({v: as_int(v) for v in s.axes} for s in stages(new))
    return prove_stages(func, new, Correspondence(pairs, at))


def test_a_definition_is_what_is_read() -> None:
    func = _function(DEFINE, READ)
    found = _proved(func, _function(INLINED, inner=False))
    assert isinstance(found, Certificate) and found.exact
    assert not _proved(func, _function(INLINED.replace("7 - v", "v"), inner=False))
    assert not _proved(func, _function(INLINED.replace("(1)", "(3)"), inner=False))
    new = inlined(func, stages(func))
    assert _proved(func, new) and not new.body.block.alloc_buffers
    layouts = [Layout.identity(1)] * 3
    oracle.check(_function(DEFINE, READ, COPY), _function(INLINED, COPY, inner=False), layouts)


COPY = "other[v] = x[v]"
WRONG = {
    "what it reads is written before": (
        (DEFINE, "x[v] = T.float32(0)", READ), ("x[v] = T.float32(0)", INLINED),
    ),
    "its reader writes what it reads": (
        (DEFINE, "x[v] = t[7 - v]"), ("x[v] = x[7 - v] + T.float32(1)",),
    ),
    "it is read before it is written": ((READ, DEFINE), (INLINED,)),
    "it is written twice": ((DEFINE, "t[v] = x[v]", READ), (INLINED,)),
    "it is not written whole": (("t[v // 2] = x[v // 2] + T.float32(1)", READ), (INLINED,)),
    "it is of itself": (("t[v] = t[v] + T.float32(1)", READ), (INLINED,)),
    "its stage does more": ((f"{DEFINE}\n            {COPY}", READ), (INLINED,)),
    "it is never written": ((READ,), (INLINED,)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_stores_that_are_not_definitions_are_not_inlined(name: str) -> None:
    stores, new = WRONG[name]
    func = _function(*stores)
    assert inlined(func, stages(func)) is func
    refused = _proved(func, _function(*new, inner=False))
    assert not refused and "definition" in refused.reason, refused


def test_iterators_of_one_value_and_several_types_of_index() -> None:
    func = tvm.script.from_source("""# from tvm.script import tirx as T
@T.prim_func(s_tir=True, private=True)
def main(x: T.Buffer((1, 8), "float32"), out: T.Buffer((T.int64(8), T.int64(1)), "float32")):
    t = T.sblock_alloc_buffer((1, 8))
    for i, j in T.grid(1, 8):
        with T.sblock("t"):
            v, w = T.axis.remap("SS", [i, j])
            t[0, w] = x[v, w] + T.float32(1)
    for i, j in T.grid(T.int64(8), T.int64(1)):
        with T.sblock("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = t[w, v] * T.float32(2)
""")
    layouts = [Layout.identity(2), Layout.permuted((1, 0))]
    found = rewrite(func, layouts)
    assert isinstance(found, Rewritten) and _names(found.func) == ["out"]
    oracle.check(func, found.func, layouts)
