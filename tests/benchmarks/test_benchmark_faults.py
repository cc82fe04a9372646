"""The harness of failures: cases of each kind as it runs them, and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attacks.faults.__main__ import LOADING, Row, judged, page
from benchmarks.attacks.faults.injections import cases
from benchmarks.attacks.faults.victim import VICTIM, unmodified
from opinfo.byoc.codegen.loading import load_checked

SOME = {
    "convert a region: raises KeyError": (VICTIM,),
    "cost: returns nan": (),
    "pattern: names relax.mul": (),
    "condition: raises MemoryError": (VICTIM,),
}


def test_there_are_enough_and_each_has_a_name() -> None:
    names = [c.name for c in cases()]
    assert len(names) >= 100 and len(set(names)) == len(names) and set(SOME) <= set(names)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_failure_costs_what_it_may(name: str, tmp_path: Path) -> None:
    (case,) = (c for c in cases() if c.name == name)
    row = judged(case, unmodified(), tmp_path)
    assert row.good, row
    assert row.lost == SOME[name]


def test_the_page_counts_what_is_not_as_it_must_be() -> None:
    rows = [
        Row("cost", "raises KeyError", True, True, True, said="plain: cost"),
        Row("cost", "returns nan", True, False, True, ("relax.add",), "plain | cost"),
    ]
    text = page(rows)
    assert "| cost | 2 | 2 | 1 | 2 |" in text and "1 of 2 injected failures" in text
    assert "- cost, returns nan: `plain \\| cost`" in text


def test_the_limit_of_loading_is_that_of_a_case_alone() -> None:
    """Tests in this process load larger libraries, on a busy machine."""
    assert load_checked.SECONDS > LOADING
