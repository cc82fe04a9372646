"""A program that is nearly an operator never gets the operator's answer.

A sample of the mutants; `python -m benchmarks.mutants` tries more of them.
"""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, op_info

from ..mutants import mutants
from ..mutation import CASES, answer, feeds, legalised, outputs, same, trial

LIMIT = 10  # mutants of one operator, spread over its script


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_mutants_get_no_wrong_answer(name: str) -> None:
    build, shapes, _ = CASES[name]
    original = legalised(build, shapes)
    truth = op_info(original)
    inputs = feeds(shapes)
    expected = [outputs(original, i) for i in inputs]
    assert expected[0] is not None
    if isinstance(truth, OpInfo):
        assert same(expected[0], answer(original, truth, inputs[0]))
    chosen = list(mutants(original))
    different = 0
    for change, mutant in chosen[:: max(1, len(chosen) // LIMIT)]:
        found = trial(mutant, truth, inputs, expected)
        different += found.different
        assert not found.wrong, f"{change}: {found.wrong}"
    assert different, f"no mutant of {name} computes something else"
