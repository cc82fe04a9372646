"""What breaks TVM's own layout passes, planned with NHWC and with packed layouts and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir

from opinfo.analysis.results.op_info import Certificate
from opinfo.layout import plan_layout
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite.rewrite import Rewritten, rewrite
from tests.common.run import run

from .. import equal, nets

op, nn = relax.op, relax.op.nn
IMAGE = (1, 3, 6, 6)
WANTS = {
    "nhwc": {"conv2d": ["NHWC", "OHWI"]},
    "packed": {"conv2d": ["NCHW4c", "OIHW4i4o"]},
}
CASES: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[int, ...]]] = {}


def case(*shape: int) -> Any:
    def add(build: Any) -> Any:
        CASES[build.__name__] = (build, shape or IMAGE)
        return build

    return add


def conv(emit: Any, rng: Any, x: Any, out: int = 6, channels: int = 3) -> Any:
    """A convolution whose result has ``out`` channels; six is not a multiple of four."""
    return emit(nn.conv2d(x, nets.const(rng, out, channels, 3, 3), padding=1))


@case(1, 4, 4, 4)
def same_shape_non_inverse(emit: Any, rng: Any, x: Any) -> Any:
    """Two conversions of one shape that do not undo each other."""
    y = emit(op.layout_transform(x, index_map=lambda n, c, h, w: (n, h, w, c)))
    y = emit(op.layout_transform(y, index_map=lambda n, h, w, c: (n, w, h, c)))
    return conv(emit, rng, y, channels=4)


@case()
def layout_remove_pad_layout(emit: Any, rng: Any, x: Any) -> Any:
    """Data is written to the padding, cut, and padded anew."""

    def packed(v: Any) -> Any:
        return emit(op.layout_transform(
            v, index_map=lambda n, c, h, w: (n, c // 4, h, w, c % 4), pad_value=0.0,
        ))  # fmt: skip

    def logical(v: Any) -> Any:
        return emit(op.reshape(op.permute_dims(v, [0, 1, 4, 2, 3]), (1, 8, 6, 6)))

    y = emit(op.exp(packed(conv(emit, rng, x))))
    y = emit(op.strided_slice(logical(y), [1], [0], [6]))
    y = logical(packed(y))
    return conv(emit, rng, y, channels=8)


@case()
def exp_then_sum(emit: Any, rng: Any, x: Any) -> Any:
    """A sum over a padded axis of what makes one of zero."""
    return emit(op.sum(op.exp(conv(emit, rng, x)), [1]))


@case()
def max_of_negatives(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.subtract(conv(emit, rng, x), relax.const(50.0)))
    return emit(op.max(y, [1]))


@case()
def softmax_over_channels(emit: Any, rng: Any, x: Any) -> Any:
    return conv(emit, rng, emit(nn.softmax(conv(emit, rng, x), 1)), channels=6)


@case()
def layer_norm_chw(emit: Any, rng: Any, x: Any) -> Any:
    """The weights have the axes that move."""
    gamma, beta = nets.const(rng, 6, 6, 6), nets.const(rng, 6, 6, 6)
    return emit(nn.layer_norm(conv(emit, rng, x), gamma, beta, [1, 2, 3]))


@case()
def repeat_flat(emit: Any, rng: Any, x: Any) -> Any:
    return emit(op.repeat(conv(emit, rng, x), 2))


@case()
def repeat_channels(emit: Any, rng: Any, x: Any) -> Any:
    return conv(emit, rng, emit(op.repeat(conv(emit, rng, x), 2, 1)), channels=12)


@case()
def squeeze_negative(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.mean(conv(emit, rng, x), [2, 3], keepdims=True))
    return emit(op.squeeze(y, [-1]))


@case()
def stack_and_sum(emit: Any, rng: Any, x: Any) -> Any:
    y = conv(emit, rng, x)
    both = emit(op.stack([y, conv(emit, rng, x)], 1))
    return emit(relax.Tuple([both, emit(op.sum(both, [1]))]))


@case()
def conv2d_transpose(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(nn.conv2d_transpose(conv(emit, rng, x), nets.const(rng, 6, 5, 2, 2), (2, 2)))
    return conv(emit, rng, y, channels=5)


@case()
def rms_norm(emit: Any, rng: Any, x: Any) -> Any:
    return conv(emit, rng, emit(nn.rms_norm(conv(emit, rng, x), nets.const(rng, 6), [3])), 6, 6)


@case()
def mixed_dtypes(emit: Any, rng: Any, x: Any) -> Any:
    """Padding of three types, and a mask."""
    y = conv(emit, rng, x)
    half = emit(op.astype(y, "float16"))
    small = emit(op.astype(op.clip(op.multiply(y, relax.const(9.0)), -100.0, 100.0), "int8"))
    both = emit(op.add(op.astype(half, "float32"), op.astype(small, "float32")))
    mask = emit(op.greater(both, relax.const(0.3)))
    y = conv(emit, rng, emit(op.where(mask, both, y)), channels=6)
    return emit(relax.Tuple([y, small, half]))


@case(1, 1, 1, 1)
def all_ones(emit: Any, rng: Any, x: Any) -> Any:
    """Every extent is one, so that no shape tells axes apart."""
    y = emit(nn.conv2d(x, nets.const(rng, 1, 1, 1, 1)))
    y = emit(nn.relu(emit(op.permute_dims(y, [3, 1, 0, 2]))))
    return emit(nn.conv2d(y, nets.const(rng, 3, 1, 1, 1)))


@case(2, 3, 6, 6)
def group_norm_and_groups(emit: Any, rng: Any, x: Any) -> Any:
    y = conv(emit, rng, x)
    y = emit(nn.group_norm(y, nets.const(rng, 6), nets.const(rng, 6), 3, 1, [2, 3]))
    return emit(nn.conv2d(y, nets.const(rng, 6, 2, 3, 3), groups=3))


@pytest.mark.parametrize("want", WANTS)
@pytest.mark.parametrize("name", CASES)
def test_planned_as_given(name: str, want: str) -> None:
    build, shape = CASES[name]
    mod = nets.net(build, shape)
    text = mod.script(show_meta=True)
    assert all("operator_name" not in (f.attrs or {}) for f in mod.functions.values())
    planned = plan_layout(mod, WANTS[want])
    assert planned.report.status == "optimal"
    assert mod.script(show_meta=True) == text
    check(mod, planned.module, [shape])


def check(before: Any, after: Any, shapes: list[tuple[int, ...]]) -> None:
    relax.analysis.well_formed(after)
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    equal.compare(equal.execute(before, values), equal.execute(after, values))


# ------------------------------------------------------------------------ blocks and bindings


def test_a_value_that_other_blocks_know_by_another_name() -> None:
    """The conversion is made in one dataflow block and read in the next."""
    x = relax.Var("x", relax.TensorType(IMAGE, "float32"))
    rng, bb = np.random.default_rng(0), relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(nn.conv2d(x, nets.const(rng, 4, 3, 3, 3)))
            one, two = bb.emit_output(y), bb.emit_output(bb.emit(nn.relu(y)))
        with bb.dataflow():
            z = bb.emit(nn.conv2d(one, nets.const(rng, 4, 4, 1, 1)))
            out = bb.emit_output(bb.emit(op.add(z, two)))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    for want in WANTS.values():
        check(mod, plan_layout(mod, want).module, [IMAGE])


def test_a_pin_where_there_is_nothing_to_do() -> None:
    """A function without a binding gives its parameter as it was."""
    x = relax.Var("x", relax.TensorType(IMAGE, "float32"))
    func = relax.Function([x], relax.SeqExpr([], x), x.ty).with_attr("global_symbol", "main")
    planned = plan_layout(tvm.IRModule({"main": func}), pins={"x": "NHWC"}).module
    value = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    (got,) = equal.execute(planned, [value.transpose(0, 2, 3, 1)])
    np.testing.assert_array_equal(got, value)


def test_a_checked_type_is_a_value_of_its_own() -> None:
    """``match_cast`` gives the extents that what comes after it has."""
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType(IMAGE, "float32"))
    rng, bb = np.random.default_rng(0), relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = conv(bb.emit, rng, x)
            y = bb.match_cast(y, relax.TensorType((n, 6, 6, 6), "float32"))
            out = bb.emit_output(conv(bb.emit, rng, y, channels=6))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    for want in WANTS.values():
        check(mod, plan_layout(mod, want).module, [IMAGE])


def test_what_is_not_understood_stays() -> None:
    """A PrimFunc that sorts by a packed call."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = conv(emit, rng, x)
        return conv(emit, rng, emit(op.sort(y, 3)), channels=6)

    with equal.TARGET:
        mod = relax.backend.DispatchSortScan()(nets.net(build, IMAGE, legal=False))
    mod = relax.transform.LegalizeOps()(mod)
    for want in WANTS.values():
        check(mod, plan_layout(mod, want).module, [IMAGE])


def test_a_mask_is_converted_to_a_packed_layout() -> None:
    x, m = (relax.Var(n, relax.TensorType((1, 8, 8, 8), t))
            for n, t in (("x", "float32"), ("m", "bool")))  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [x, m]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))
            y = bb.emit(relax.op.multiply(y, bb.emit(relax.op.astype(m, "float32"))))
            out = bb.emit_output(bb.emit(relax.op.nn.max_pool2d(y, (3, 3), padding=1)))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    planned = plan_layout(mod, {"max_pool2d": ["NCHW4c"]})
    assert planned.report.after.number == 3
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((1, 8, 8, 8)).astype("float32"), rng.random((1, 8, 8, 8)) < 0.5]
    np.testing.assert_array_equal(run(planned.module, values)[0], run(mod, values)[0])


def test_what_tvm_raises_of_a_form_costs_that_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise s_tir.ScheduleError("no such loop")

    func = nets.net(nets.convolved, (1, 3, 8, 8))["conv2d"]
    layouts = [Layout.parse("NHWC"), None, Layout.parse("NHWC")]
    monkeypatch.setattr("opinfo.layout.rewrite.rewrite.write_candidate", refused)
    found = rewrite(func, layouts)
    assert isinstance(found, Rewritten) and isinstance(found.certificate, Certificate)
    monkeypatch.setattr("opinfo.layout.rewrite.rewrite.substituted", refused)
    lost = rewrite(func, layouts)
    assert not isinstance(lost, Rewritten)
    assert lost.reason == "TVM rejects the rewritten function: ScheduleError: no such loop"
