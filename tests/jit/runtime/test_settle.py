"""`Session.settle` says what became of the shapes that occurred."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opinfo.jit import Budget, CompiledShapes, KernelStore, Session, Waiting

from ..sessions import ask, counted, stub


def test_it_gives_the_events_since_the_last_time(
    compiled: CompiledShapes, plain: Path, tmp_path: Path
) -> None:
    store = KernelStore(tmp_path / "kernels")
    with Session(compiled, store=store, compiler=counted(tmp_path, plain, "pass")) as session:
        ask(session, [2, 2])
        first = session.settle()
        ask(session, [3, 3, 4, 4])
        second, third = session.settle(), session.settle()
    assert [e.shape for e in first.events] == [(2,)] and first and not first.waiting
    assert {e.shape for e in second.events} == {(3,), (4,)} and second.counts == {"compiled": 2}
    assert third.events == () and str(third) == "no kernel was requested"
    assert str(second) == "2 compiled"
    with Session(compiled, store=store, compiler=stub("break")) as again:
        ask(again, [2, 2])
        assert str(again.settle()) == "1 loaded"


def test_it_says_what_was_refused_and_why(
    compiled: CompiledShapes, plain: Path, tmp_path: Path
) -> None:
    budget = Budget(compiles=1)
    compiler = counted(tmp_path, plain, "pass")
    with Session(compiled, budget=budget, compiler=compiler) as session:
        ask(session, [2, 2])
        session.settle()
        ask(session, [3, 3])
        settled = session.settle()
    (event,) = settled.refusals
    assert event.shape == (3,) and "budget of 1 compiled kernels is exhausted" in event.why
    assert event.why in str(settled) and event.site in str(settled)


def test_it_lists_what_still_waits(compiled: CompiledShapes) -> None:
    compiler = stub("time.sleep(60)", 60)
    with Session(compiled, compiler=compiler) as session:
        ask(session, [2, 2, 3, 3, 4])
        settled = session.settle(0.3)
        site = session.stats().sites[0].site
        compiler.stop()  # the session would wait for its job
    assert not settled and settled.events == () and settled.seconds >= 0.3
    assert settled.waiting == (Waiting(site, (2,)), Waiting(site, (3,)))
    assert str(settled) == "2 waiting"


@pytest.mark.parametrize("seconds", ["a", float("nan"), [1]])
def test_a_timeout_that_is_not_a_number_is_refused(compiled: CompiledShapes, seconds: Any) -> None:
    with Session(compiled) as session, pytest.raises(ValueError, match="settle: seconds: expected"):
        session.settle(seconds)
