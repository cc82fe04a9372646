"""PrimFuncs over other layouts: what they look like, what they compute, why some are refused."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.certify.structural_equality import structurally_equal
from opinfo.analysis.results.op_info import Refusal
from opinfo.analysis.results.plain_values import to_plain
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.rewrite import Rewriter, Rewritten, rewrite
from opinfo.layout.verify.verify import prove

from ...common.prim_funcs import lowered, prim_funcs
from ..oracle import Wrong, check
from ..trial import SIZE, trial
from .rewrite_cases import CONV, DIRECT, OPS, PACKED, layouts_of, rewritten


@pytest.mark.parametrize("name", DIRECT)
def test_the_op_is_recovered_with_nothing_to_undo(name: str) -> None:
    op, operands, texts, wanted, attrs = DIRECT[name]
    found = op_info(rewritten(lowered(op, *operands), texts).func)
    assert isinstance(found, OpInfo) and found.name == wanted, found
    assert not found.relaid
    assert {k: to_plain(found.attrs[k]) for k in attrs} == attrs


def test_a_convolution_looks_as_a_native_one_would() -> None:
    @T.prim_func(s_tir=True, private=True)
    def expected(
        x: T.Buffer((T.int64(2), T.int64(6), T.int64(6), T.int64(8))),
        y: T.Buffer((T.int64(2), T.int64(3), T.int64(8), T.int64(4))),
        out: T.Buffer((T.int64(2), T.int64(5), T.int64(4), T.int64(4))),
    ) -> None:
        T.func_attr({"tirx.noalias": True})
        for n, h, w, kh, kw, r, c in T.grid(
            T.int64(2), T.int64(5), T.int64(4), T.int64(2), T.int64(3), T.int64(8), T.int64(4)
        ):
            with T.sblock("conv2d_nchw"):
                vn, vh, vw, vc, vr, vkh, vkw = T.axis.remap("SSSSRRR", [n, h, w, c, r, kh, kw])
                with T.init():
                    out[vn, vh, vw, vc] = T.float32(0)
                out[vn, vh, vw, vc] = (
                    out[vn, vh, vw, vc] + x[vn, vh + vkh, vw + vkw, vr] * y[vkh, vkw, vr, vc]
                )

    func = lowered(OPS.nn.conv2d, (2, 8, 6, 6), (4, 8, 2, 3))  # it pads by nothing first
    tvm.ir.assert_structural_equal(rewritten(func, "NHWC HWIO NHWC").func, expected)


@pytest.mark.parametrize("name", PACKED)
def test_packed_layouts_compute_the_same(name: str) -> None:
    op, operands, texts = PACKED[name]
    func = lowered(op, *operands)
    found = rewritten(func, texts)
    divisor = [1] if name == "integer division" else []
    check(func, found.func, found.layouts, {"n": SIZE}, divisor)


@pytest.mark.parametrize("seed", range(24))
def test_random_layouts_of_random_operators(seed: int) -> None:
    t = trial(seed)
    found = rewrite(t.func, t.layouts)
    assert isinstance(found, Rewritten), found
    check(t.func, found.func, found.layouts, {"n": SIZE}, t.positive, seed)


def _text(func: Any, texts: str, **how: Any) -> str:
    return str(rewritten(func, texts, **how).func.script())


def test_a_reduction_over_a_packed_axis_is_split() -> None:
    text = _text(lowered(OPS.nn.conv2d, (2, 8, 6, 6), (8, 8, 3, 3)), "NCHW4c OIHW4i4o NCHW4c")
    assert "//" not in text and "%" not in text
    assert "x0[v_ax0, v_rc_0, v_ax2 + v_ry, v_ax3 + v_rx, v_rc_1]" in text
    assert "x1[v_ax1, v_rc_0, v_ry, v_rx, v_rc_1, v_ax4]" in text


@pytest.mark.parametrize(
    ("texts", "order", "loops"),
    [
        ("NHWC HWIO NHWC", "layout", "ax0, ax1, ax2, ry, rx, rc, ax3"),
        ("NHWC OHWI NHWC", "layout", "ax0, ax1, ax2, ax3, ry, rx, rc"),
        ("NHWC HWIO NHWC", "given", "ax0, ax1, ax2, ax3, rc, ry, rx"),
        ("NCHW4c OIHW4i4o NCHW4c", "layout", "ax0, ax1, ax2, ax3, rc_0, ry, rx, rc_1, ax4"),
    ],
)
def test_reductions_are_outside_of_a_loop_over_neighbours(
    texts: str, order: Any, loops: str
) -> None:
    text = _text(lowered(OPS.nn.conv2d, *CONV), texts, loop_order=order)
    assert f"for {loops} in" in text


RELU = ((2, 6, 4, 4),)


@pytest.mark.parametrize(
    ("op", "texts", "guarded"),
    [
        (OPS.nn.relu, "NCHW4c NCHW4c", False),
        (OPS.nn.relu, "NCHW4c? NCHW4c", True),
        (OPS.nn.relu, "NCHW4c? NCHW4c?", False),
        (OPS.exp, "NCHW4c NCHW4c", True),
        (OPS.exp, "NCHW2c NCHW2c", False),
        (OPS.exp, "NHWC NCHW4c?", True),
    ],
)
def test_padding_is_guarded_only_where_it_must_be(op: Any, texts: str, guarded: bool) -> None:
    func = lowered(op, *RELU)
    found = rewritten(func, texts)
    assert ("if_then_else" in found.func.script()) == guarded
    check(func, found.func, found.layouts)


@pytest.mark.parametrize("name", ["bias beyond its end", "integer division", "take of padding"])
def test_what_padding_must_not_do_is_guarded(name: str) -> None:
    op, operands, texts = PACKED[name]
    assert "if_then_else" in _text(lowered(op, *operands), texts)


def test_pad_values_of_a_cast_to_bool_are_bools() -> None:
    func = lowered(lambda x: OPS.astype(x, "bool"), (2, 6))
    layout = Layout.parse("AB4b", "AB", pad_value=-1)
    found = rewrite(func, [layout, Layout.parse("AB4b", "AB", pad_value=1)])
    assert isinstance(found, Rewritten), found
    check(func, found.func, found.layouts)


def test_a_copy_in_the_order_of_memory_is_an_identity() -> None:
    permute = lowered(lambda x: OPS.permute_dims(x, (0, 2, 3, 1)), (2, 4, 3, 5))
    assert rewritten(permute, "NHWC -").identity == 0
    assert rewritten(permute, "- -").identity is None
    assert rewritten(permute, "NHWC NHWC").identity is None
    reshape = lowered(lambda x: OPS.reshape(x, (6, 20)), (2, 3, 4, 5))
    assert rewritten(reshape, "- -").identity == 0
    assert rewritten(reshape, "- BA").identity is None
    slice_ = lowered(lambda x: OPS.strided_slice(x, [0], [0], [1]), (2, 3))
    assert rewritten(slice_, "- -").identity is None


def test_attributes_stay_but_for_our_own_and_the_input_is_not_changed() -> None:
    func = lowered(OPS.nn.relu, *RELU).with_attr("op_pattern", 0).with_attr("opinfo.op", "x")
    before = func.script()
    again = Rewriter()
    found = again(func, layouts_of("NHWC NHWC"))
    assert isinstance(found, Rewritten)
    assert {str(k) for k in found.func.attrs.keys()} == {"op_pattern", "s_tir", "tirx.noalias"}
    assert func.script() == before
    other = again(lowered(OPS.nn.relu, *RELU), layouts_of("NHWC NHWC"))
    assert isinstance(other, Rewritten) and "op_pattern" not in other.func.attrs
    assert structurally_equal(found.func, other.func)


def test_rewritten_functions_fuse() -> None:
    conv = rewritten(lowered(OPS.nn.conv2d, *CONV), "NHWC OHWI NHWC").func
    relu = rewritten(lowered(OPS.nn.relu, (2, 4, 4, 4)), "NHWC NHWC").func
    bb = relax.BlockBuilder()
    x, w = (relax.Var(n, relax.TensorType(s, "float32"))
            for n, s in (("x", (2, 6, 6, 8)), ("w", (4, 3, 3, 8))))  # fmt: skip
    out = relax.TensorType((2, 4, 4, 4), "float32")
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit(relax.call_tir(bb.add_func(conv, "conv"), [x, w], out_ty=out))
            y = bb.emit_output(relax.call_tir(bb.add_func(relu, "relu"), [y], out_ty=out))
        bb.emit_func_output(y)
    mod = relax.transform.AnnotateTIROpPattern()(bb.get())
    mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    funcs = prim_funcs(mod)
    assert len(funcs) == 1


# ---------------------------------------------------------------------------- other forms


def test_a_function_in_no_standard_form_is_substituted() -> None:
    @T.prim_func(private=True)
    def plain(x: T.Buffer((2, 6), "float32"), out: T.Buffer((2, 6), "float32")) -> None:
        for i in range(12):
            out[i // 6, i % 6] = x[i // 6, i % 6] + T.float32(1)

    for texts in ("BA AB4b?", "AB4b BA", "BA AB4b"):
        found = rewritten(plain, texts)
        check(plain, found.func, found.layouts)


def test_nested_blocks_are_substituted() -> None:
    func = lowered(lambda x: OPS.nn.adaptive_avg_pool2d(x, (2, 3)), (1, 6, 4, 4))
    for texts in ("NHWC NHWC", "NCHW4c NCHW4c"):
        found = rewritten(func, texts)
        check(func, found.func, found.layouts)


def test_a_scan_keeps_its_loops() -> None:
    @T.prim_func(s_tir=True, private=True)
    def scan(x: T.Buffer((4, 8), "float32"), out: T.Buffer((4, 8), "float32")) -> None:
        for i, j in T.grid(4, 8):
            with T.sblock("scan"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = T.if_then_else(w == 0, T.float32(0), out[v, w - 1]) + x[v, w]

    found = rewritten(scan, "BA BA")
    check(scan, found.func, found.layouts)


def test_refusals_say_why() -> None:
    median = lowered(lambda x: OPS.median(x, axis=1), (4, 6))
    refused = rewrite(median, [Layout.permuted((1, 0)), *[None] * (len(median.params) - 1)])
    assert isinstance(refused, Refusal) and "Evaluate" in refused.reason

    @T.prim_func(private=True)
    def strided(a: T.handle, out: T.Buffer((2, 6), "float32")) -> None:
        x = T.match_buffer(a, (2, 6), "float32", strides=[8, 1])
        for i, j in T.grid(2, 6):
            out[i, j] = x[i, j]

    refused = rewrite(strided, layouts_of("BA -"))
    assert isinstance(refused, Refusal) and "strides" in refused.reason


def test_arguments_that_fit_no_function_raise() -> None:
    relu = lowered(OPS.nn.relu, *RELU)
    with pytest.raises(TypeError, match="PrimFunc"):
        rewrite(3, [])
    with pytest.raises(ValueError, match="expected 2 layouts, got 1"):
        rewrite(relu, [None])
    with pytest.raises(ValueError, match="rank"):
        rewrite(relu, layouts_of("BA -"))
    greater = lowered(OPS.greater, *RELU * 2)
    with pytest.raises(ValueError, match="cannot hold"):
        rewrite(greater, [None, None, Layout.parse("NCHW4c", pad_value=0.5)])


# ---------------------------------------------------------------------------- the proof itself


def test_a_wrong_rewrite_is_not_proved() -> None:
    func = lowered(OPS.nn.conv2d, (2, 4, 6, 6), (4, 4, 3, 3))
    layouts = layouts_of("NHWC OHWI NHWC")
    new = rewritten(func, "NHWC OHWI NHWC").func
    assert prove(func, new, layouts)
    assert not prove(func, new, layouts_of("NWHC OHWI NHWC"))
    assert not prove(func, new, layouts_of("NHWC IHWO NHWC"))
    assert not prove(func, func, layouts)
    exp = lowered(OPS.exp, *RELU)
    unpadded = rewritten(exp, "NCHW4c? NCHW4c?").func
    assert prove(exp, unpadded, layouts_of("NCHW4c? NCHW4c?"))
    assert not prove(exp, unpadded, layouts_of("NCHW4c NCHW4c"))
    with pytest.raises(Wrong):
        check(exp, unpadded, layouts_of("NCHW4c NCHW4c"))


def test_an_access_beyond_a_digit_is_not_taken_for_the_next_one() -> None:
    @T.prim_func(private=True)
    def func(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            out[i] = x[i]

    @T.prim_func(private=True)
    def beyond(x: T.Buffer((2, 4), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            out[i] = x[0, i]

    refused = prove(func, beyond, [Layout.parse("A4a"), None])
    assert isinstance(refused, Refusal) and "outside" in refused.reason
