"""What a question may cost: a number of steps, the same everywhere, and a net of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos
from opinfo.analysis.proofs.smt import prove_int
from opinfo.analysis.terms import work
from opinfo.analysis.terms.scalar import ge0
from opinfo.analysis.terms.term import TRUE, as_int, variable
from opinfo.analysis.terms.work import Exhausted, budget, spend

from .test_breaches import program

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
    """The fewest steps with which it is not refused do not depend on what was asked before."""

    def refused(steps: int) -> bool:
        monkeypatch.setattr(work, "STEPS", steps)
        found = QUESTIONS[question](program(BODY))
        return isinstance(found, Refusal) and found.reason.startswith("the budget of")

    low, high = 0, 200_000
    assert refused(low) and not refused(high)
    while high - low > 200:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(middle) else (low, middle)
    op_infos(program(BODY.replace("exp", "tanh")))
    assert refused(low - 200) and not refused(high + 200)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_reason_says_which_limit_it_was(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = QUESTIONS[question](program(BODY))
    assert not (isinstance(found, Refusal) and "budget" in found.reason)
    with monkeypatch.context() as m:
        m.setattr(work, "STEPS", 10)
        found = QUESTIONS[question](program(BODY))
        assert isinstance(found, Refusal) and found.reason == "the budget of 10 steps is used up"
    with monkeypatch.context() as m:
        m.setattr(work, "SECONDS", -1.0)
        found = QUESTIONS[question](program(BODY))
        wanted = "the budget of -1 s of processor time is used up"
        assert isinstance(found, Refusal) and found.reason == wanted


def test_questions_inside_one_another_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "STEPS", 100)
    with budget():
        with budget():
            spend(60)
        with pytest.raises(Exhausted, match="100 steps"):
            spend(60)
    spend(1_000)  # outside a question nothing is counted


def test_a_query_costs_the_same_each_time() -> None:
    """Z3 counts its own steps over all queries of a context."""
    n, k = as_int(variable("size", "n")), as_int(variable("scalar", "k"))
    goal, costs = ge0(n * n - n * k + k * k), set()
    with budget():
        current = work._work.get()
        assert current is not None
        for _ in range(4):
            left = current.left
            prove_int(goal, TRUE, 50)
            costs.add(left - current.left)
    assert len(costs) == 1 and costs.pop() >= 300


def test_a_budget_is_no_exception_of_a_plug_in() -> None:
    assert not issubclass(Exhausted, Exception)


def test_ordinary_questions_are_far_from_the_limit() -> None:
    func = program("    for i in range(8):\n        out[i] = T.exp(x[i])\n")
    with budget():
        current = work._work.get()
        assert isinstance(op_info(func), OpInfo) and isinstance(op_infos(func), Chain)
        assert current is not None and current.left > work.STEPS * 0.95
