"""Layouts are chosen with the backends: nothing is cheaper, saved plans keep them, limits hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import tvm_ffi
from tvm import relax

from opinfo.byoc import (
    Backend,
    CannotForce,
    Code,
    DispatchPlan,
    Measure,
    Measured,
    Node,
    Pattern,
    PlanRefused,
    dispatch,
    many,
    one,
    replay,
)
from opinfo.byoc.backend.region import Region
from opinfo.byoc.dispatching.choice import with_layouts as joint
from opinfo.byoc.measure import costs
from opinfo.layout.graph.relax_graph import Op, Value

from ...layout import nets
from ...layout.random_graphs import case
from .joint_brute import innermost, objectives

SEEDS = range(30)
IMAGE = (1, 3, 8, 8)
POINTWISE = ("relax.add", "relax.nn.relu", "relax.multiply")


def first(node: Node) -> str | None:
    layout = node.info.attrs["data_layout"]
    return None if layout == "NCHW" else f"data_layout is {layout}"


def convert(regions: Sequence[Region]) -> Code:
    return Code("", tuple(r.symbol for r in regions))


def conv(name: str, condition: Any, cost: float, **wants: tuple[str, ...]) -> Backend:
    """Takes convolutions under a condition, each with what follows, at a cost."""
    chain = Pattern("conv", one("relax.nn.conv2d", condition), many(POINTWISE))
    named = {f"relax.nn.{op}": layouts for op, layouts in wants.items()}
    return Backend(name, (chain,), convert, wants=named, cost=lambda r: cost)


LAST = conv("last", innermost, 1.0, conv2d=("NHWC", "OHWI"))


def net() -> Any:
    return nets.net(nets.residual, IMAGE)


def convolutions(done: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for t in done.taken:
        found[t.backend] = found.get(t.backend, 0) + t.ops.count("relax.nn.conv2d")
    return found


def test_no_layouts_and_regions_are_cheaper() -> None:
    found = {s: objectives(case(s, 2, 6, special=False)) for s in SEEDS}
    tried = {s: both for s, both in found.items() if both is not None}
    assert len(tried) > 25
    assert len({round(least, 3) for _, least in tried.values()}) > 15
    assert {s: plan for s, (plan, _) in tried.items()} == pytest.approx(
        {s: least for s, (_, least) in tried.items()}
    )


def test_another_price_of_a_microsecond_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "BYTES", 2e4)  # of the planner; the other way has its own
    found = [objectives(case(s, 2, 6, special=False)) for s in SEEDS]
    assert any(both is not None and both[0] != pytest.approx(both[1]) for both in found)


def test_layouts_change_for_a_backend_that_takes_no_others() -> None:
    mod = net()
    given = dispatch(mod, [LAST])
    assert not given.taken and given.report is None
    best = dispatch(mod, [LAST], layouts="best")
    assert convolutions(best) == {"last": 2}
    assert best.report is not None and best.report.after.number == 1
    assert best.status == best.report.status == "optimal"


@pytest.mark.parametrize(("here", "there", "taken"), [
    (1.0, 1.0, {"first": 2}),  # as cheap, and nothing to convert
    (1.0, 500.0, {"first": 2}),
    (500.0, 1.0, {"last": 2}),
])  # fmt: skip
def test_the_cheaper_layout_is_taken(here: float, there: float, taken: dict[str, int]) -> None:
    both = [conv("first", first, here), replace(LAST, cost=lambda r: there)]
    assert convolutions(dispatch(net(), both, layouts="best")) == taken


def test_priority_comes_before_cost() -> None:
    both = [conv("first", first, 1.0), replace(LAST, cost=lambda r: 9e3)]
    done = dispatch(net(), both, {"first": 2, "last": 3}, layouts="best")
    assert convolutions(done) == {"last": 2}


@pytest.mark.parametrize(("last", "tvm", "taken", "left"), [
    (1.0, 900.0, {"last": 1}, 2),  # though it says that it is slower
    (900.0, 900.0, {"first": 1}, 0),
    (900.0, 1.0, {}, 2),  # TVM's own code is fastest, in the other layout
])  # fmt: skip
def test_what_is_measured_decides(
    last: float, tvm: float, taken: dict[str, int], left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_up(candidates: Any, how: Measure) -> Any:
        def time(c: Any) -> float:
            _, rows, _, channels = c.subject.buffers[0].shape
            times = {"first": 300.0, "last": last, "tvm": tvm if channels < rows else 900.0}
            return times[c.key.backend]

        return {c.key: Measured(time(c)) for c in candidates}, set()

    monkeypatch.setattr(costs, "results", made_up)
    both = [conv("first", first, 1.0), replace(LAST, cost=lambda r: 9e3)]
    done = dispatch(nets.net(nets.convolved, IMAGE), both, layouts="best", measure=Measure())
    assert convolutions(done) == taken
    assert done.report is not None and done.report.after.number == left


def test_what_is_desired_must_be() -> None:
    both = [conv("first", first, 1.0), replace(LAST, cost=lambda r: 9e3)]
    done = dispatch(net(), both, layouts="best", desired={"conv2d": ["NHWC", "OHWI"]})
    assert convolutions(done) == {"last": 2}


def test_what_is_forced_is_taken_in_the_layout_that_it_needs() -> None:
    both = [conv("first", first, 1.0), LAST]
    done = dispatch(net(), both, force={"conv2d": "last"}, layouts="best")
    assert convolutions(done) == {"last": 2}
    never = replace(LAST, wants={})
    with pytest.raises(CannotForce, match=r"conv2d .* cannot go to last.*data_layout is NCHW"):
        dispatch(net(), [never], force={"conv2d": "last"}, layouts="best")


def test_needless_layout_changes_count_as_no_gain() -> None:
    def turned(emit: Any, rng: Any, x: Any) -> Any:
        back = emit(relax.op.permute_dims(emit(relax.op.permute_dims(x, [0, 2, 1])), [0, 2, 1]))
        return emit(relax.op.nn.relu(back))

    anything = Pattern("any", one(("relax.permute_dims", "relax.nn.relu", "relax.astype")))
    mover = Backend("mover", (anything,), convert, cost=lambda r: 1.0)
    mod = nets.net(turned, (2, 4, 6))
    assert [t.ops for t in dispatch(mod, [mover]).taken].count(("relax.permute_dims",)) == 2
    done = dispatch(mod, [mover], layouts="best")
    assert [t.ops for t in done.taken] == [("relax.nn.relu",)]
    assert done.report is not None and done.report.after.number == 0


def test_a_saved_plan_has_the_layouts() -> None:
    mod = net()
    done = dispatch(mod, [LAST], layouts="best")
    saved = DispatchPlan.from_json(done.plan.to_json())
    assert saved == done.plan
    again = replay(mod, saved, [LAST])
    tvm_ffi_equal(again.module, done.module)
    assert again.plan == done.plan
    with pytest.raises(PlanRefused, match="another module"):
        replay(nets.net(nets.flat, IMAGE), saved, [LAST])


@pytest.mark.parametrize(("change", "reason"), [
    (lambda ops: ops[1:], "layouts of 7 operators, expected 8"),
    (lambda ops: [ops[0][:-1], *ops[1:]], "layouts, got"),
    (lambda ops: [[None] * len(op) for op in ops], "does not match last, pattern conv"),
    (lambda ops: [[{"dims": [[[0, 1, None]]], "pad": 0}, *ops[0][1:]], *ops[1:]], "for x"),
    (lambda ops: [[{"dims": [[[0, 2, None]]], "pad": 0}, *ops[0][1:]], *ops[1:]], "malformed"),
])  # fmt: skip
def test_layouts_that_do_not_fit_are_refused(change: Any, reason: str) -> None:
    mod = net()
    saved = dispatch(mod, [LAST], layouts="best").plan.to_json()
    (name,) = saved["layouts"]
    saved["layouts"][name] = change(saved["layouts"][name])
    with pytest.raises(PlanRefused, match=reason):
        replay(mod, DispatchPlan.from_json(saved), [LAST])


def test_layouts_are_given_or_best() -> None:
    with pytest.raises(ValueError, match="layouts must be 'given' or 'best', got 'nhwc'"):
        dispatch(net(), [LAST], layouts="nhwc")  # type: ignore[arg-type]


def tvm_ffi_equal(one: Any, two: Any) -> None:
    plain = [m.without_attr("external_mods").without_attr("const_name_to_constant")
             for m in (one, two)]  # fmt: skip
    assert tvm_ffi.structural_equal(*plain, map_free_vars=True)


def test_the_module_is_not_changed() -> None:
    mod = net()
    text = mod.script()
    dispatch(mod, [LAST], layouts="best")
    assert mod.script() == text
    assert any(isinstance(f, relax.Function) for f in mod.functions.values())


@pytest.mark.parametrize("turned", [False, True])
def test_a_scalar_does_not_join_layouts_in_a_region(turned: bool) -> None:
    """Variants of an operator in two layouts read it; a region takes those of the program."""
    scalar, kept, moved = (Value(n, (), "float32", None) for n in ("scalar", "kept", "moved"))
    maker, first_op, last_op = (Op(n, None, None, (), ()) for n in ("maker", "first", "last"))
    source = Op("maker", None, None, (), (scalar,), maker)
    given = [Op("first", None, None, (scalar,), (kept,), first_op),
             Op("last", None, None, (kept,), (), last_op)]  # fmt: skip
    other = [Op("first", None, None, (scalar,), (moved,), first_op),
             Op("last", None, None, (moved,), (), last_op)]  # fmt: skip
    kept.uses, moved.uses = [given[1]], [other[1]]
    scalar.uses = [given[0], other[0]] if turned else [other[0], given[0]]
    parts = joint._connected([source, *other, *given], {source, *given})
    assert parts == [{maker: source, first_op: given[0], last_op: given[1]},
                     {first_op: other[0], last_op: other[1]}]  # fmt: skip
