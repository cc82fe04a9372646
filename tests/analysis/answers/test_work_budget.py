"""What a question may cost: a number of steps, the same everywhere, and a net of time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos
from opinfo.analysis.lifting import idle_choices
from opinfo.analysis.proofs.solvers import smt
from opinfo.analysis.proofs.solvers.smt import prove_int
from opinfo.analysis.terms.condition_terms import conj, disj, ge0, negate
from opinfo.analysis.terms.term import TRUE, CallTerm, Term, as_int, raw_call, variable, work_budget
from opinfo.analysis.terms.term.work_budget import Exhausted, budget, spend

from ...common.prim_funcs import lowered
from ..lifting.breaches.breach_programs import HEADER, program

BODY = """
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        t[i] = T.exp(x[i])
    for i in range(8):
        out[i] = T.max(t[i], T.float32(0)) + T.tanh(t[i])
"""
QUESTIONS: dict[str, Callable[[Any], Any]] = {"op_info": op_info, "op_infos": op_infos}


@pytest.mark.parametrize("question", QUESTIONS)
def test_steps_are_the_same_for_the_same_question(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fewest steps with which it is not refused do not depend on what was asked before.

    Terms that are still in memory spare up to a sixth of them, so each question starts without.
    """

    def refused(steps: int) -> bool:
        monkeypatch.setattr(work_budget, "STEPS", steps)
        gc.collect()
        gc.disable()
        try:
            found = QUESTIONS[question](program(BODY))
        finally:
            gc.enable()
        return isinstance(found, Refusal) and found.reason.startswith("the budget of")

    low, high = 0, 200_000
    assert refused(low) and not refused(high)
    while high - low > 200:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(middle) else (low, middle)
    op_infos(program(BODY.replace("exp", "tanh")))
    assert refused(low - 200) and not refused(high + 200)


def test_counts_of_cut_windows_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are products of minima, whose comparison is split over each."""
    pool = partial(relax.op.nn.avg_pool2d, pool_size=(3, 3), strides=(2, 2),
                   padding=(1, 1, 1, 1), ceil_mode=True, count_include_pad=True)  # fmt: skip
    monkeypatch.setattr(work_budget, "STEPS", 4_000)
    found = op_info(lowered(pool, (1, 3, 12, 10)))
    assert isinstance(found, OpInfo) and found.name == "relax.nn.avg_pool2d"
    assert found.attrs["ceil_mode"] and found.attrs["count_include_pad"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_reason_says_which_limit_it_was(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = QUESTIONS[question](program(BODY))
    assert not (isinstance(found, Refusal) and "budget" in found.reason)
    with monkeypatch.context() as m:
        m.setattr(work_budget, "STEPS", 10)
        found = QUESTIONS[question](program(BODY))
        assert isinstance(found, Refusal) and found.reason == "the budget of 10 steps is exhausted"
    with monkeypatch.context() as m:
        m.setattr(work_budget, "SECONDS", -1.0)
        found = QUESTIONS[question](program(BODY))
        wanted = "the budget of -1 s of CPU time is exhausted"
        assert isinstance(found, Refusal) and found.reason == wanted


def test_questions_inside_one_another_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_budget, "STEPS", 100)
    with budget():
        with budget():
            spend(60)
        with pytest.raises(Exhausted, match="100 steps"):
            spend(60)
    spend(1_000)  # outside a question nothing is counted


def test_a_query_costs_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its verdict nor its cost depends on the queries before it."""
    monkeypatch.setattr(smt, "CLOCK", 1_000)  # a busy machine may stop this process for long
    n, k = as_int(variable("size", "n")), as_int(variable("scalar", "k"))
    goal = ge0(n * n - n * k + k * k)

    def costs() -> list[int]:
        """Of each limit until the goal is proved."""
        found = []
        for limit in range(1, 1_000):
            with budget():
                current = work_budget._work.get()
                assert current is not None
                verdict = prove_int(goal, TRUE, limit)
                found.append(work_budget.STEPS - current.left)
            if verdict.status == "proved":
                break
        return found

    first = costs()
    assert first == [300 + 100 * limit for limit in range(1, len(first))] + [300]
    assert costs() == first and costs() == first


def test_plug_ins_cannot_catch_a_spent_budget() -> None:
    assert not issubclass(Exhausted, Exception)


def test_ordinary_questions_are_far_from_the_limit() -> None:
    func = program("    for i in range(8):\n        out[i] = T.exp(x[i])\n")
    with budget():
        current = work_budget._work.get()
        assert isinstance(op_info(func), OpInfo) and isinstance(op_infos(func), Chain)
        assert current is not None and current.left > work_budget.STEPS * 0.95


#: An eighth of the real limit: what doubles sixty times reaches any.
FEW = 50_000
#: Values that are used twice, so that what is written out from them doubles: the next of `a`.
DOUBLING = {
    "products": ("int64", "{a} * {a} + A[{k}]"),
    "quotients": ("int64", "{a} // 3 + {a} % 7 * {a}"),
    "extremes": ("int64", "T.min({a}, T.max({a} + A[1], A[{k}]))"),
    "choices": ("int64", "T.Select({a} > A[{k}], {a} + A[1], {a} * 2)"),
}


def _doubling(case: str) -> Any:
    dtype, following = DOUBLING[case]
    lines = [f"    a{k + 1} = " + following.format(a=f"a{k}", k=k % 4) for k in range(60)]
    text = f'def main(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((1,), "{dtype}")):\n    a0 = A[0]\n'
    return tvm.script.from_source(HEADER + text + "\n".join(lines) + "\n    B[0] = a60\n")


@pytest.mark.part
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("case", DOUBLING)
def test_what_grows_is_counted(case: str, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends by its steps: the clock is not looked at."""
    monkeypatch.setattr(work_budget, "SECONDS", 1e9)
    monkeypatch.setattr(work_budget, "STEPS", FEW)
    found = QUESTIONS[question](_doubling(case))
    assert isinstance(found, Refusal)


def test_choices_count_more_than_their_rebuilding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that is negated for a branch costs as much as ten terms that are rebuilt."""
    negated = 0

    def counted(condition: Term) -> Term:
        nonlocal negated
        negated += 1
        return negate(condition)

    monkeypatch.setattr(work_budget, "SECONDS", 1e9)
    monkeypatch.setattr(work_budget, "STEPS", FEW // 4)
    monkeypatch.setattr(idle_choices, "negate", counted)
    found = op_info(_doubling("choices"))
    assert isinstance(found, Refusal)
    assert found.reason == f"the budget of {FEW // 4} steps is exhausted"
    assert 0 < 5 * negated < FEW // 4  # twice for a choice


@pytest.mark.parametrize("question", QUESTIONS)
def test_stores_of_single_elements_are_counted(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_budget, "SECONDS", 1e9)
    lines = "\n".join(f"    out[{k}] = T.exp(x[{199 - k}])" for k in range(200))
    text = 'def main(x: T.Buffer((200,), "float32"), out: T.Buffer((200,), "float32")):\n'
    found = QUESTIONS[question](tvm.script.from_source(f"{HEADER}{text}{lines}\n"))
    assert isinstance(found, Refusal)


def test_negation_does_not_write_out_what_is_shared() -> None:
    a, b = (raw_call("load", (as_int(variable("scalar", n)),), "bool") for n in "ab")
    c: Term = a
    for _ in range(200):
        c = disj(conj(c, b), conj(negate(c), a))
    assert isinstance(c, CallTerm)
