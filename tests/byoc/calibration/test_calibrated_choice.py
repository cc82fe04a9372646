"""Calibrated costs decide between backends, TVM included, and what is measured at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc import Measure, Measured, dispatch
from opinfo.byoc.backend.match import Match
from opinfo.byoc.backend.region import region
from opinfo.byoc.calibration.calibrated_costing import expected, tvm_cost
from opinfo.byoc.calibration.calibration import (
    Calibration,
)
from opinfo.byoc.calibration.cost_model import CostModel
from opinfo.byoc.calibration.prune_matches import FACTOR, Pruning
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import costs
from opinfo.layout.graph.relax_graph import Op

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .calibrated import BLUE, RED, choose, slow_exp, streams, table, two


def test_the_least_cost_wins_across_backends_and_tvm() -> None:
    mod = nets.net(two, (256, 256))
    tvm, fast, slow = slow_exp(1, 1e4, 900), slow_exp(1, 1e4, 90), slow_exp(1, 1e2, 9000)
    relu, exp = ("relax.nn.relu",), ("relax.exp",)
    done, taken = choose(mod, [BLUE, RED], table(tvm=tvm, blue=fast, red=slow))
    assert taken == [("blue", exp)] or taken == [("blue", relu), ("blue", exp)]
    _, taken = choose(mod, [BLUE, RED], table(tvm=tvm, blue=slow, red=fast))
    assert ("red", exp) in taken and not any(b == "blue" for b, _ in taken)
    _, taken = choose(mod, [BLUE, RED], table(tvm=fast, blue=slow, red=slow))
    assert taken == []
    x = np.random.default_rng(0).standard_normal((256, 256)).astype("float32")
    for a, b in zip(run(mod, [x]), run(done.module, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_tvm_is_costed_with_what_it_fuses() -> None:
    """relu then exp: alone the library's relu is faster, but TVM does both in one pass."""
    mod = nets.net(two, (256, 256))
    tvm, library = slow_exp(1, 1e4, 53), slow_exp(1, 2e4, 500)
    model = CostModel(table(tvm=tvm, blue=library))
    lowered = read(mod, "test")
    relu, exp = lowered.ops
    apart = [tvm_cost((op,), lowered.infos, model).microseconds for op in (relu, exp)]
    both = tvm_cost((relu, exp), lowered.infos, model).microseconds
    theirs = expected(BLUE, region("", (relu,), lowered.infos).region, model).microseconds
    assert theirs < apart[0] and both < theirs + apart[1]
    _, taken = choose(mod, [BLUE], table(tvm=tvm, blue=library))
    assert taken == []


def test_classes_that_the_user_names_go_first() -> None:
    mod = nets.net(two, (256, 256))
    tvm, slow = slow_exp(1, 1e4, 90), slow_exp(1, 1e2, 9000)
    calibration = table(tvm=tvm, blue=slow, red=slow)
    _, taken = choose(mod, [BLUE], calibration, priority=None)
    assert [b for b, _ in taken] == ["blue", "blue"]
    _, taken = choose(mod, [BLUE, RED], calibration, priority={"red": 5, "tvm": 3, "blue": 3})
    assert [b for b, _ in taken] == ["red", "red"]
    _, taken = choose(mod, [BLUE], calibration, force={"exp": "blue"})
    assert taken == [("blue", ("relax.exp",))]


def test_a_backend_without_samples_costs_what_it_says() -> None:
    mod = nets.net(two, (256, 256))
    calibration = table(tvm=slow_exp(1, 1e4, 90))
    _, taken = choose(mod, [replace(BLUE, cost=lambda r: 1.0)], calibration)
    assert [b for b, _ in taken] == ["blue", "blue"]
    _, taken = choose(mod, [replace(BLUE, cost=lambda r: 1e6)], calibration)
    assert taken == []


def test_a_region_says_what_each_backend_was_expected_to_cost() -> None:
    mod = nets.net(two, (256, 256))
    calibration = table(tvm=slow_exp(1, 1e4, 900), blue=slow_exp(1, 1e4, 90))
    done, _ = choose(mod, [BLUE, replace(RED, cost=lambda r: 7e3)], calibration)
    (exp,) = [t for t in done.taken if t.ops == ("relax.exp",)]
    costs = dict(exp.costs)
    assert costs["blue"].microseconds == pytest.approx(90, rel=0.02)
    assert costs["tvm"].microseconds == pytest.approx(900, rel=0.02)
    assert costs["red"].microseconds == 7e3
    assert [costs[n].source for n in ("blue", "tvm", "red")] == [
        "calibrated", "calibrated", "estimated",
    ]  # fmt: skip


def test_reference_code_of_a_library_is_left_to_tvm() -> None:
    mod = nets.net(two, (256, 256))
    calibration = table(tvm=slow_exp(1, 1e4, 120), blue=slow_exp(1, 1e4, 60))
    named = replace(BLUE, implementation=lambda r: "jit:avx2")
    reference = replace(BLUE, implementation=lambda r: "ref:any")
    assert ("blue", ("relax.exp",)) in choose(mod, [named], calibration)[1]
    assert choose(mod, [reference], calibration)[1] == []


def test_layouts_are_chosen_by_what_conversions_cost() -> None:
    """A convolution that is faster channels last is converted only where that costs less."""

    def conv(emit: Any, rng: Any, x: Any) -> Any:
        return emit(relax.op.nn.conv2d(x, const(rng, 16, 16, 3, 3), padding=1))

    def sizes(last: bool) -> tuple[str, tuple[int, ...]]:
        return f"conv2d {'last' if last else 'first'} dense window", (16, 16, 16, 16, 1, 9, 1)

    def calibration(transpose: float) -> Calibration:
        work, moved = 16**4 * 9, 40000
        convs = [(*sizes(last), work, moved, 50.0 if last else 90.0) for last in (True, False)]
        naive = [(*sizes(last), work, moved, 5000.0) for last in (True, False)]
        return table(onednn=[*convs, *streams(1e4)],
                     tvm=[*naive, *streams(1e4),
                          ("transpose", (4096, 16), 4096, 32768, transpose)])  # fmt: skip

    mod = nets.net(conv, (1, 16, 16, 16))
    for transpose, layout in ((2.0, "NHWC"), (200.0, "NCHW")):
        done = dispatch(mod, ["onednn"], {"tvm": 3}, layouts="best",
                        calibration=calibration(transpose))  # fmt: skip
        assert [t.ops for t in done.taken] == [("relax.nn.conv2d",)]
        assert done.report is not None
        assert done.report.after.number == (2 if layout == "NHWC" else 0)


# Pruning: what is measured at all.
def _op(name: str) -> Op:
    return Op(name, None, None, (), ())


A, B, C = map(_op, "abc")


def _match(backend: str, ops: tuple[Op, ...], cost: float) -> Match:
    return Match(backend, "p", ops, cost)


def test_candidates_that_cannot_be_the_best_are_not_measured() -> None:
    pruning = Pruning(CostModel(table(**dict.fromkeys(("blue", "red", "green"), streams(1e3)))))
    near, far = _match("blue", (A,), 2 * FACTOR), _match("red", (A,), 7 * FACTOR)
    best = _match("green", (A,), 2.5)
    assert pruning.worthwhile([near, far, best], {A: 100.0}) == [near, best]
    assert pruning.by_tvm([near, far, best], {A: 100.0, B: 5.0}) == {B}
    assert pruning.by_tvm([near], {A: 2 * FACTOR, B: 5.0}) == {A, B}
    kept = Pruning(pruning.model, keep=lambda m: m.backend == "red")
    assert kept.worthwhile([near, far, best], {A: 100.0}) == [near, far, best]
    unknown = [_match("new", (A,), cost) for cost in (0.1, 900.0)]
    assert pruning.worthwhile([best, *unknown], {A: 100.0}) == [best, *unknown]
    assert pruning.by_tvm(unknown, {A: 100.0}) == {A}


def test_a_part_of_a_chain_is_measured_only_if_another_wants_the_rest() -> None:
    pruning = Pruning(CostModel(table(blue=streams(1e3))))
    part, whole = _match("blue", (A, B), 10.0), _match("blue", (A, B, C), 11.0)
    tvm = dict.fromkeys((A, B, C), 5.0)
    assert pruning.worthwhile([part, whole], tvm) == [whole]
    rival = _match("blue", (_op("d"), C), 4.0)
    tvm[rival.ops[0]] = 5.0
    assert pruning.worthwhile([part, whole, rival], tvm) == [part, whole, rival]
    dear = _match("blue", (A, B, C), 16.0)
    assert pruning.worthwhile([part, dear], tvm) == [part, dear]


def test_only_what_is_worthwhile_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def made_up(candidates: Any, how: Measure) -> Any:
        asked.extend(c.name for c in candidates)
        return {c.key: Measured(70.0) for c in candidates}, set()

    monkeypatch.setattr(costs, "results", made_up)
    mod = nets.net(two, (256, 256))
    tvm, fast, slow = slow_exp(1, 1e4, 900), slow_exp(1, 1e4, 90), slow_exp(1, 1e2, 9000)
    calibration = table(tvm=tvm, blue=fast, red=slow)
    done, taken = choose(mod, [BLUE, RED], calibration, measure=Measure())
    assert sorted(asked) == ["blue: relu", "blue: tir_exp", "tvm: relu"]
    assert ("blue", ("relax.exp",)) in taken
    (exp,) = [t for t in done.taken if t.ops == ("relax.exp",)]
    assert exp.microseconds == 70.0
    assert {n: c.source for n, c in exp.costs} == {"blue": "measured", "tvm": "calibrated"}
    asked.clear()
    choose(mod, [BLUE, RED], calibration, measure=Measure(), priority={"red": 4, "tvm": 3})
    assert "red: tir_exp" in asked
