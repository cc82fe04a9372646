"""Several builds of a module prove and lower what they share once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.answer import analyser
from opinfo.analysis.answer.candidates import certified_operator
from opinfo.analysis.answer.recover import lift_or_refuse
from opinfo.analysis.certify.structural_equality import bare
from opinfo.analysis.results.op_info import Refusal
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.compile import SharedWork, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.patterns.pattern import Pattern, one
from opinfo.byoc.prepare import prepare
from opinfo.layout import planner
from opinfo.layout.model.layout import Layout
from opinfo.layout.rewrite import rewrite
from opinfo.layout.rewrite.func_proofs import FuncProofs
from opinfo.layout.rewrite.rewrite import Rewritten
from opinfo.layout.search.function_plan import cheapest

from ...common.prim_funcs import lowered
from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from ..backends.toy import TOY, convert

SHAPE = (1, 4, 6, 6)
NHWC = Layout.parse("NHWC")


class Counter:
    """Counts the calls of a function, by the structure of their first argument."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, list[Any]()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(args[0])
        return self.function(*args, **kwargs)


def _net(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.nn.relu(emit(relax.op.nn.conv2d(x, const(rng, 4, 4, 3, 3), padding=1))))
    return emit(relax.op.add(emit(relax.op.nn.relu(y)), x))


def _lifted(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counter = Counter(lift_or_refuse)
    monkeypatch.setattr(analyser, "lift_or_refuse", counter)
    return counter


@pytest.mark.parametrize("plan", [True, False])
def test_a_second_build_proves_and_lowers_nothing_again(
    plan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifted, lowered = _lifted(monkeypatch), Counter(prepare._lowered)
    proved = Counter(rewrite._rewritten)
    monkeypatch.setattr(prepare, "_lowered", lowered)
    monkeypatch.setattr(rewrite, "_rewritten", proved)
    mod = nets.net(_net, SHAPE, legal=False)
    shared = SharedWork(mod)
    first = compile_module(mod, [TOY], plan=plan, shared=shared)
    counts = [len(c.calls) for c in (lifted, lowered, proved)]
    again = compile_module(mod, [TOY], plan=plan, shared=shared)
    assert counts[:2] == [len(lifted.calls), 1] and counts[0] >= 3
    assert [len(c.calls) for c in (lifted, lowered, proved)] == counts
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for compiled in (first, again):
        out = compiled.machine()["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(out, run(mod, [x])[0], rtol=1e-4, atol=1e-4)
    assert [t.ops for t in again.dispatched.taken] == [t.ops for t in first.dispatched.taken]


def test_work_is_shared_by_builds_of_one_module_only() -> None:
    mod, other = (nets.net(_net, SHAPE, legal=False) for _ in range(2))
    with pytest.raises(ValueError, match="shared is of another module"):
        compile_module(mod, [TOY], shared=SharedWork(other))


def test_an_equal_function_is_not_proved_again_and_an_unequal_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lifted, proofs = _lifted(monkeypatch), None
    rewritten = Counter(rewrite._rewritten)
    monkeypatch.setattr(rewrite, "_rewritten", rewritten)
    certified = Counter(certified_operator)
    monkeypatch.setattr(analyser, "certified_operator", certified)
    proofs = FuncProofs()
    relu, same = (lowered(relax.op.nn.relu, (1, 2, 3, 4)) for _ in range(2))
    assert not relu.same_as(same)
    for func in (relu, bare(same)):
        assert proofs.analyse(func).info.name == "relax.nn.relu"  # type: ignore[union-attr]
        assert isinstance(proofs.rewriter(func, (NHWC, NHWC)), Rewritten)
        assert not isinstance(proofs.direct(func), Refusal)
    assert len(lifted.calls) == len(rewritten.calls) == len(certified.calls) == 1
    assert isinstance(proofs.rewriter(same, (None, None)), Rewritten)  # other layouts
    assert len(rewritten.calls) == 2
    exp, larger = lowered(relax.op.exp, (1, 2, 3, 4)), lowered(relax.op.nn.relu, (1, 2, 3, 5))
    assert proofs.analyse(exp).info.name == "relax.exp"  # type: ignore[union-attr]
    assert proofs.analyse(larger).info.name == "relax.nn.relu"  # type: ignore[union-attr]
    for func in (exp, larger):
        assert isinstance(proofs.rewriter(func, (NHWC, NHWC)), Rewritten)
    assert len(lifted.calls) == 3 and len(rewritten.calls) == 4


def _between(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.nn.relu(emit(relax.op.nn.conv2d(x, const(rng, 4, 4, 3, 3), padding=1))))
    return emit(relax.op.nn.conv2d(y, const(rng, 4, 4, 3, 3), padding=1))


def test_layouts_without_a_proof_are_forbidden_before_the_plan_is_chosen_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mod = prepare.prepare(nets.net(_between, SHAPE, legal=False))
    solved, refused = Counter(cheapest), list[Any]()
    proved = planner.Planner.proved_form

    def unless_relu(self: Any, func: Any, layouts: Any, shares: bool) -> Any:
        if self.analyse(func).operator.name == "relax.nn.relu":
            refused.append(func)
            return Refusal("no proof")
        return proved(self, func, layouts, shares)

    monkeypatch.setattr(planner, "cheapest", solved)
    monkeypatch.setattr(planner.Planner, "proved_form", unless_relu)
    taking = Backend("taking", (Pattern("exp", one("relax.exp")),), convert)
    done = dispatch(mod, [taking], layouts="best", desired={"nn.conv2d": ["NHWC", "OHWI"]})
    assert refused and len(solved.calls) == 2
    ((first, relu, second),) = done.plan.layouts.values()
    assert set(relu) == {None}
    assert first == second and first[0] == NHWC


def test_only_the_forms_of_a_plan_are_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = prepare.prepare(nets.net(_between, SHAPE, legal=False))
    written, proved = Counter(rewrite._candidates), Counter(rewrite._proved)
    monkeypatch.setattr(rewrite, "_candidates", written)
    monkeypatch.setattr(rewrite, "_proved", proved)
    wants = {"relax.nn.conv2d": ("NHWC", "OHWI")}
    idle = Backend("idle", (Pattern("exp", one("relax.exp")),), convert, wants=wants)
    dispatch(mod, [idle], layouts="best")
    assert len(written.calls) >= 2 and not proved.calls  # it takes nothing, so all stay unchanged
    taking = Backend("taking", (Pattern("conv", one("relax.nn.conv2d")),), convert, wants=wants)
    dispatch(mod, [taking], layouts="best", desired={"nn.conv2d": ["NHWC", "OHWI"]})
    assert len(proved.calls) == 2  # of both convolutions, which are equal, and of relu


def test_a_plan_is_chosen_again_if_a_proof_takes_another_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mod = prepare.prepare(nets.net(_between, SHAPE, legal=False))
    solved, proof, firsts = Counter(cheapest), rewrite._proved, set[Any]()

    def unless_first(cache: Any, candidate: Any, layouts: Any) -> Any:
        if (cache, layouts) not in firsts:
            firsts.add((cache, layouts))
            return Refusal("no proof")
        return proof(cache, candidate, layouts)

    monkeypatch.setattr(planner, "cheapest", solved)
    monkeypatch.setattr(rewrite, "_proved", unless_first)
    taking = Backend("taking", (Pattern("exp", one("relax.exp")),), convert)
    done = dispatch(mod, [taking], layouts="best", desired={"nn.conv2d": ["NHWC", "OHWI"]})
    assert len(firsts) >= 2 and len(solved.calls) == 2
    assert all(found[0] == NHWC for found in next(iter(done.plan.layouts.values())))
