"""Forms of one compute lift to one definition; what is not understood is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.analysis import LayoutNormalised, OpInfo, Refusal, layout_normalised, lift, op_info
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Int, Var

from ...common.interpret import interpret
from . import forms

HEADER = "# from tvm.script import tirx as T\n"


def script(text: str) -> Any:
    return tvm.script.from_source(HEADER + text)


@pytest.mark.parametrize("form", forms.SAME_CONV, ids=lambda f: f.__name__)
def test_scheduled_convolutions_are_one_comprehension(form: Any) -> None:
    plain = lift(forms.conv2d())
    other = lift(forms.scheduled(forms.conv2d(), form), plain.params)
    assert other.outputs[0].body is plain.outputs[0].body


@pytest.mark.parametrize("form", forms.SAME_SOFTMAX, ids=lambda f: f.__name__)
def test_scheduled_softmaxes_are_one_comprehension(form: Any) -> None:
    plain = lift(forms.softmax())
    other = lift(forms.scheduled(forms.softmax(), form), plain.params)
    assert other.outputs[0].body is plain.outputs[0].body


@pytest.mark.parametrize(
    "change, layouts", forms.LAYOUTS, ids=lambda x: "-".join(x) if isinstance(x, tuple) else ""
)
def test_layouts_are_recovered(change: Any, layouts: tuple[str, ...]) -> None:
    func = forms.scheduled(forms.conv2d(), change)
    found, info = layout_normalised(func), op_info(func)
    assert isinstance(found, LayoutNormalised), found
    attrs = found.logical.attrs
    assert (found.logical.name, found.layouts) == ("relax.nn.conv2d", layouts)
    assert (attrs["strides"], attrs["padding"]) == ((2, 2), (1, 1, 1, 1))
    if any("3c" in text for text in layouts):  # no attribute tells of elements that are padding
        assert isinstance(info, Refusal)
        return
    assert isinstance(info, OpInfo) and info.layouts == layouts
    assert [info.attrs[k] for k in ("data_layout", "kernel_layout", "out_layout")] == list(layouts)


#: Hand-written matrix products: plain loops, int32, no regions, accumulators of their own.
MATMULS = {
    "plain loops": """
@T.prim_func
def main(a: T.Buffer((4, 6), "float32"), b: T.Buffer((6, 5), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for i in range(4):
        for j in range(5):
            c[i, j] = T.float32(0)
            for k in range(6):
                c[i, j] = c[i, j] + a[i, k] * b[k, j]
""",
    "an accumulator used again": """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4, 6), "float32"), b: T.Buffer((6, 5), "float32"),
         c: T.Buffer((4, 5), "float32")):
    with T.sblock("root"):
        acc = T.sblock_alloc_buffer((1,), "float32")
        for i in range(4):
            for j in range(5):
                acc[0] = T.float32(0)
                for k in range(6):
                    acc[0] = acc[0] + b[k, j] * a[i, k]
                c[i, j] = acc[0]
""",
    "reduction outside, reset in the first iteration": """
@T.prim_func
def main(a: T.Buffer((4, 6), "float32"), b: T.Buffer((6, 5), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for k in range(6):
        for f in range(20):
            if k == 0:
                c[f // 5, f % 5] = T.float32(0)
            c[f // 5, f % 5] = c[f // 5, f % 5] + a[f // 5, k] * b[k, f % 5]
""",
    "unrolled by two": """
@T.prim_func
def main(a: T.Buffer((4, 6), "float32"), b: T.Buffer((6, 5), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        c[i, j] = T.float32(0)
        for k in range(3):
            c[i, j] = c[i, j] + a[i, k * 2] * b[k * 2, j]
            c[i, j] = c[i, j] + a[i, k * 2 + 1] * b[k * 2 + 1, j]
""",
}


@pytest.mark.parametrize("name", MATMULS)
def test_hand_written_matmuls(name: str) -> None:
    info = op_info(script(MATMULS[name]))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.operands) == ("relax.matmul", (0, 1))
    assert not info.certificate.exact and info.certificate.kind == "proved"


REFUSED = {
    "an iteration reads": """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    c[0] = a[0]
    c[1] = a[1]
    for i in range(6):
        c[i + 2] = c[i] * a[i + 2]
""",
    "some element is not written": """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(7):
        c[i] = a[i]
""",
    "before it is written": """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    with T.sblock("root"):
        t = T.sblock_alloc_buffer((9,), "float32")
        for i in range(8):
            t[i] = a[i]
        for i in range(8):
            c[i] = t[i + 1]
""",
    "may be out of bounds": """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(9):
        c[i] = a[0]
""",
    "outside of its buffer": """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    t = T.alloc_buffer((2,), "int32", scope="local")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        t[-1] = tx
        c[tx] = a[tx]
""",
    "which iteration writes": """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((4,), "float32")):
    for i in range(8):
        c[i // 2] = a[i]
""",
    "calls the extern function f": """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    T.evaluate(T.call_packed("f", T.float32(1)))
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals_say_why(reason: str) -> None:
    func = script(REFUSED[reason])
    with pytest.raises(Unliftable, match=reason):
        lift(func)
    assert isinstance(op_info(func), Refusal)


def test_a_store_that_is_never_executed_may_be_outside() -> None:
    info = op_info(
        script("""
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 1):
        if k > 0:
            c[k - 1] = a[i]
        c[i] = T.exp(a[i])
""")
    )
    assert isinstance(info, OpInfo) and info.name == "relax.exp", info


def test_a_recurrence_that_is_not_a_reduction_is_refused() -> None:
    func = script("""
@T.prim_func
def main(a: T.Buffer((8,), "float32"), c: T.Buffer((1,), "float32")):
    c[0] = T.float32(0)
    for i in range(8):
        c[0] = a[i] - c[0]
""")
    refusal = op_info(func)
    assert isinstance(refusal, Refusal) and "no recogniser" in refusal.reason


def test_the_lift_of_an_update_in_place_has_to_be_asked_for() -> None:
    func = script("""
@T.prim_func
def main(a: T.Buffer((8,), "float32")):
    for i in range(8):
        a[i] = a[i] + T.float32(1)
""")
    with pytest.raises(Unliftable, match="an output is read"):
        lift(func)
    lifted = lift(func, in_place=True)
    assert lifted.inplace_indices == (0,) and len(lifted.params) == 2


@pytest.mark.parametrize("form", [*forms.SAME_CONV[:4], forms.unchanged], ids=lambda f: f.__name__)
def test_the_comprehension_computes_what_the_program_does(form: Any) -> None:
    func = forms.scheduled(forms.conv2d(), form)
    lifted = lift(func)
    rng = np.random.default_rng(1)
    values = [rng.standard_normal((1, 8, 16, 16)), rng.standard_normal((16, 8, 3, 3))]
    (expected,) = interpret(func, values)
    (c,) = lifted.outputs
    points = np.indices(expected.shape)[:, :, ::5, ::3, ::3].reshape(4, -1)
    env = {a.atom: p for a, p in zip(c.axes, points, strict=True) if isinstance(a.atom, Var)}
    safe = [np.pad(v, [(1, 1)] * 4) for v in values]
    found = evaluate(c.body, env, lambda t, i: safe[t.position][tuple(k + 1 for k in i)])
    np.testing.assert_allclose(found, expected[tuple(points)], rtol=1e-9)
    assert isinstance(c.axes[1], Int)


def test_the_input_is_not_changed() -> None:
    func = forms.conv2d()
    before = func.script()
    op_info(func)
    assert func.script() == before


def _offset(extra: str) -> Any:
    return script(f"""
@T.prim_func
def main(p: T.handle, o: T.handle):
    k = T.int32()
    a = T.match_buffer(p, (8,), "float32", elem_offset=k)
    out = T.match_buffer(o, (8,), "float32")
    for i in range(8):
        out[i] = T.exp(a[i]){extra}
""")


def test_a_parameter_may_begin_anywhere() -> None:
    info = op_info(_offset(""))
    assert isinstance(info, OpInfo) and info.name == "relax.exp"


def test_an_element_offset_cannot_be_used_as_a_value() -> None:
    refusal = op_info(_offset(" + T.Cast('float32', k)"))
    assert isinstance(refusal, Refusal) and "not bound" in refusal.reason
