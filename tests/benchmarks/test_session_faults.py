"""A short attack on a session, and the reports of its checks."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.attacks.session_faults.__main__ import Result, attack, page

GOOD = {"counts": {"right": 9, "forked": 2, "after: right": 3}, "lost": 0, "leaked": {}}


@pytest.mark.slow
def test_a_short_attack() -> None:
    found = attack(3.0, 2, 2)
    assert found.failures == {}, found.report
    assert found.report["counts"]["right"] > 0 and found.attacks["entries damaged"] >= 0
    assert found.report["counts"]["after: right"] == 6


@pytest.mark.parametrize(
    ("report", "torn", "left", "failure"),
    [({**GOOD, "counts": {"right": 9, "wrong": 1}}, 0, [], "wrong"),
     ({**GOOD, "counts": {"error": 1}}, 0, [], "error"),
     ({**GOOD, "counts": {"forked: hangs": 1}}, 0, [], "forked: hangs"),
     ({**GOOD, "lost": 1}, 0, [], "lost kernels"),
     ({**GOOD, "leaked": {"threads": 1}}, 0, [], "leaked"),
     ({}, 0, [], "lost kernels"), (GOOD, 1, [], "torn entries"), (GOOD, 0, ["x"], "left behind")],
)  # fmt: skip
def test_each_fault_is_reported_as_a_failure(
    report: dict[str, object], torn: int, left: list[str], failure: str
) -> None:
    found = Result(1.0, Counter(), report, torn, left)
    assert failure in found.failures
    assert Result(1.0, Counter(), GOOD).failures == {}


def test_the_page_has_what_was_done_and_what_came_of_it() -> None:
    text = page(Result(60, Counter({"compilers killed": 12}), GOOD), 8)
    assert "| compilers killed | 12 |" in text and "| wrong, errors | 0, 0 |" in text
    assert "--seconds 60`, 8 threads" in text and "Each answer is compared" in text
