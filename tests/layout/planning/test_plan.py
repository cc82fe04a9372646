"""Plans: what is left of conversions, that results are the same, what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.analysis import Refusal
from opinfo.layout import Layout, plan_layout
from opinfo.layout.rewrite.rewrite import rewrite
from opinfo.layout.search.function_plan import bytes_moved
from opinfo.transform import ConvertLayout, PlanLayout, RaiseOps, ReplaceOpImpl

from ...common.prim_funcs import lowered
from ...common.run import run
from .. import nets

NHWC = {"nn.conv2d": ["NHWC", "OHWI"]}
IMAGE = (1, 3, 8, 8)
CASES = {
    "residual": (nets.residual, IMAGE, NHWC, 1),
    "residual_hwio": (nets.residual, IMAGE, {"conv2d": ["NHWC", "HWIO"]}, 1),
    "residual_packed": (nets.residual, IMAGE, {"conv2d": ["NCHW4c", "OIHW4i4o"]}, 1),
    "flat": (nets.flat, IMAGE, NHWC, 1),
    "shuffle": (nets.shuffle, IMAGE, NHWC, 1),
    "attention": (nets.attention, (2, 5, 8), {}, 0),
    "parts": (nets.parts, IMAGE, NHWC, 3),
    "paired": (nets.paired, IMAGE, NHWC, 1),
    "scaled": (nets.scaled, IMAGE, NHWC, 1),
}


def check_same(before: Any, after: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    after = relax.transform.LegalizeOps()(after)
    for a, b in zip(run(before, [x]), run(after, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["tir", "graph"])
@pytest.mark.parametrize("name", CASES)
def test_few_conversions_and_equal_results(name: str, mode: Any) -> None:
    build, shape, desired, left = CASES[name]
    mod = nets.net(build, shape)
    text = mod.script()
    planned = plan_layout(mod, desired, mode=mode)
    assert mod.script() == text
    assert planned.report.status == "optimal"
    if mode == "tir":
        assert len(planned.report.conversions) == left
    check_same(mod, planned.module, shape)


def test_graph_mode_keeps_every_operator() -> None:
    mod = nets.net(nets.residual, IMAGE)
    ops = names(RaiseOps()(mod))
    raised = RaiseOps()(plan_layout(mod, NHWC, mode="graph").module)
    assert [n for n in names(raised) if n != "relax.permute_dims"] == ops
    convs = [c for c in calls(raised) if c.op.name == "relax.nn.conv2d"]
    assert [c.attrs.data_layout for c in convs] == ["NHWC", "NHWC"]
    assert [c.attrs.kernel_layout for c in convs] == ["OHWI", "OHWI"]


def test_graph_mode_broadcasts_an_operand_of_lower_rank() -> None:
    """A scale of (C, 1, 1) becomes one of (1, 1, C), and multiply stays multiply."""
    planned = plan_layout(nets.net(nets.scaled, IMAGE), NHWC, mode="graph")
    assert len(planned.report.conversions) == 1
    raised = RaiseOps()(planned.module)
    (scale,) = (c for c in calls(raised) if c.op.name == "relax.multiply")
    assert [tuple(map(int, a.ty.shape)) for a in scale.args] == [(1, 1, 8), (1, 4, 4, 8)]


def test_convert_layout_is_a_drop_in() -> None:
    mod = nets.net(nets.residual, IMAGE, legal=False)
    out = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(mod)
    assert "relax.call_tir" not in names(out)
    check_same(relax.transform.LegalizeOps()(mod), out, IMAGE)


def test_nothing_to_do_changes_nothing() -> None:
    mod = nets.net(nets.residual, IMAGE)
    tvm.ir.assert_structural_equal(PlanLayout()(mod), mod)


def test_a_module_that_is_not_lowered_is_said() -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.exp(x)), (2, 3), legal=False)
    with pytest.warns(
        UserWarning, match=r"^plan_layout: .* relax\.exp is not lowered; apply relax"
    ):
        plan_layout(mod)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_layout(relax.transform.LegalizeOps()(mod))


def test_a_mask_of_bool_is_padded() -> None:
    def build(emit: Any, rng: np.random.Generator, x: Any) -> Any:
        y = emit(relax.op.nn.conv2d(x, nets.const(rng, 6, 3, 3, 3), padding=1))
        mask = emit(relax.op.greater(y, relax.const(0.1)))
        y = emit(relax.op.where(mask, y, relax.const(0.0)))
        return emit(relax.op.nn.conv2d(y, nets.const(rng, 6, 6, 3, 3), padding=1))

    mod = nets.net(build, IMAGE)
    planned = plan_layout(mod, {"conv2d": ["NCHW4c", "OIHW4i4o"]})
    check_same(mod, planned.module, IMAGE)


def test_bytes_of_symbolic_and_of_padded_buffers() -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = nets.net(nets.convolved, (n, 3, 8, 8))
    report = plan_layout(mod, NHWC).report
    assert [c.bytes for c in report.conversions] == [64 * 3 * 64 * 4, 64 * 8 * 64 * 4]
    assert report.after.bytes == sum(c.bytes for c in report.conversions)
    assert report.summary().endswith("symbolic extents count as 64")
    packed = {"conv2d": ["NCHW8c", "OIHW8i8o"]}
    report = plan_layout(nets.net(nets.convolved, IMAGE), packed).report
    assert [c.bytes for c in report.conversions] == [8 * 64 * 4] * 2  # 3 channels fill 8
    assert "symbolic" not in report.summary()


def test_pins_move_the_conversion_to_the_caller() -> None:
    mod = nets.net(nets.residual, IMAGE)
    planned = plan_layout(mod, NHWC, pins={"x0": "NHWC"})
    assert not planned.report.conversions
    assert [int(e) for e in planned.module["main"].params[0].ty.shape] == [1, 8, 8, 3]
    x = np.random.default_rng(1).standard_normal(IMAGE).astype("float32")
    (want,), (got,) = (
        run(relax.transform.LegalizeOps()(m), [v])
        for m, v in ((mod, x), (planned.module, x.transpose(0, 2, 3, 1).copy()))
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_copies_of_a_constant_stay_within_their_budget() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        w = nets.const(rng, 1, 3, 8, 8)
        y = emit(relax.op.nn.conv2d(emit(relax.op.add(x, w)), nets.const(rng, 3, 3, 1, 1)))
        return emit(relax.op.add(emit(relax.op.nn.relu(y)), w))

    mod = nets.net(build, IMAGE)
    for budget, conversions in ((None, 2), (768, 2), (767, 3)):
        planned = plan_layout(mod, NHWC, objective=_eager, constants=budget)
        assert names(planned.module).count("relax.permute_dims") == conversions
        check_same(mod, planned.module, IMAGE)


def _eager(v: Any, layout: Layout) -> float:
    """Converts the first sum, not the last: the constant is wanted in both layouts."""
    return 1.0 if v.name == "x0" else 20.0


def test_replaced_implementations_are_proved() -> None:
    mod = nets.net(nets.residual, IMAGE)
    conv = next(f for g, f in mod.functions_items() if g.name_hint == "conv2d1")
    layouts = [Layout.parse("NHWC"), Layout.parse("HWIO", "OIHW"), Layout.parse("NHWC")]
    given = rewrite(conv, layouts)
    assert not isinstance(given, Refusal)
    planned = ReplaceOpImpl("nn.conv2d", given.func, layouts)(mod)
    used = [
        f
        for _, f in planned.functions_items()
        if tvm_ffi.structural_equal(f, given.func, map_free_vars=True)
    ]
    assert len(used) == 1
    check_same(mod, planned, IMAGE)


def test_an_implementation_that_computes_something_else_is_not_used() -> None:
    mod = nets.net(nets.residual, IMAGE)
    conv = next(f for g, f in mod.functions_items() if g.name_hint == "conv2d1")
    wrong = lowered(lambda x, w: relax.op.nn.conv2d(x, w, padding=1), (1, 8, 4, 4), (8, 8, 3, 3))
    assert tvm_ffi.structural_equal(wrong, conv, map_free_vars=True)
    wrong = lowered(
        lambda x, w: relax.op.nn.conv2d(x, w, padding=2, dilation=2), (1, 8, 4, 4), (8, 8, 3, 3)
    )
    tvm.ir.assert_structural_equal(ReplaceOpImpl("conv2d", wrong, [None] * 3)(mod), mod)


def test_a_module_that_calls_what_it_does_not_define() -> None:
    mod = nets.net(nets.residual, IMAGE)
    broken = tvm.IRModule({g: f for g, f in mod.functions_items() if g.name_hint != "conv2d"})
    with pytest.raises(ValueError, match="the module calls conv2d, which it does not define"):
        plan_layout(broken, NHWC)


def test_a_requested_layout_that_is_not_met_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(emit: Any, rng: Any, *xs: Any) -> Any:
        return emit(relax.op.nn.conv2d(*xs, padding=1))

    mod = nets.net(build, (1, 4, 4, 4), (4, 4, 3, 3))
    (op,) = plan_layout(mod, {"conv2d": ["NCHW4c", "OIHW4i4o"]}).report.ops
    assert op.implementation == "NCHW4c"
    monkeypatch.setattr("opinfo.layout.rewrite.rewrite._proved", lambda *_: Refusal("no proof"))
    (op,) = plan_layout(mod, {"conv2d": ["NCHW4c", "OIHW4i4o"]}).report.ops
    assert op.implementation == "NCHW"
    assert op.why.startswith("as given: relax.nn.conv2d is requested in NCHW4c OIHW4i4o, but")


def test_a_value_of_expressions_as_extents_is_packed() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor((1, 4, "h", "w"), "float32"), k: R.Tensor((4, 4, 3, 3), "float32")
        ) -> R.Tensor((1, 4, "h // 2", "w // 2"), "float32"):
            with R.dataflow():
                y = R.nn.max_pool2d(x, (2, 2), (2, 2))
                z = R.nn.conv2d(y, k, padding=[1, 1, 1, 1])
                R.output(z)
            return z

    mod = relax.transform.LegalizeOps()(Module)
    planned = plan_layout(mod, {"conv2d": ["NCHW4c", "OIHW4i4o"]})
    assert planned.report.conversions
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype("float32") for s in ((1, 4, 6, 10), (4, 4, 3, 3))]
    (want,), (got,) = run(mod, args), run(relax.transform.LegalizeOps()(planned.module), args)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_unit_of_the_objective_changes_no_plan() -> None:
    """In seconds a plan is the one in bytes, and no tie-break outweighs it."""
    mod = nets.net(nets.parts, IMAGE)
    one = plan_layout(mod, NHWC)
    other = plan_layout(mod, NHWC, objective=lambda v, x: bytes_moved(v, x) * 1e-12)
    assert other.report.objective == pytest.approx(one.report.objective * 1e-12)
    assert len(other.report.conversions) == len(one.report.conversions)
    count = plan_layout(mod, NHWC, objective="count").report
    assert len(count.conversions) <= len(one.report.conversions)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"mode": "fast"}, ValueError, "mode must be"),
        ({"objective": "time"}, ValueError, "objective must be"),
        ({"desired": {"nn.conv9d": ["NHWC"]}}, ValueError, "unknown Relax operator"),
        ({"desired": {"conv2d": ["NHQC!"]}}, ValueError, "expected letters"),
        ({"desired": {"conv2d": ["NDHWC"]}}, ValueError, "NDHWC"),
        ({"desired": {"add": ["NHWC"]}}, ValueError, "no layout attribute to choose"),
        ({"pins": {"y": "NHWC"}}, ValueError, "no parameter is named 'y'"),
    ],
)
def test_arguments_that_make_no_sense(arguments: Any, error: Any, text: str) -> None:
    mod = nets.net(nets.residual, IMAGE)
    with pytest.raises(error, match=text):
        plan_layout(mod, **arguments)


def names(mod: Any) -> list[str]:
    return [str(c.op.name) for c in calls(mod)]


def calls(mod: Any) -> list[Any]:
    found = [
        b.value for block in mod["main"].body.blocks for b in block.bindings
        if isinstance(b.value, relax.Call)
    ]  # fmt: skip
    return [c for c in found if hasattr(c.op, "name")]
