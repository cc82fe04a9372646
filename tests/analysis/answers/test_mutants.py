"""A program that is nearly an operator never gets the operator's answer.

A mutant of one operator a family; `python -m benchmarks.mutants` tries more of all of them.
"""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, op_info
from opinfo.testing.mutants import mutants

from ...common.mutation import answer, feeds, legalised, outputs, same, trial
from ...common.mutation_cases import CASES

LIMIT = 1  # mutants of one operator that differ from it
SAMPLE = {case.family: name for name, case in reversed(CASES.items())}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE.values(), ids=SAMPLE)
def test_mutants_get_no_wrong_answer(name: str) -> None:
    case = CASES[name]
    original = legalised(case.build, case.operands)
    truth = op_info(original)
    inputs = feeds(case.operands)
    expected = [outputs(original, i) for i in inputs]
    assert isinstance(truth, OpInfo) and expected[0] is not None
    assert same(expected[0], answer(original, truth, inputs[0]))
    different = 0
    for change, mutant in mutants(original):
        if different == LIMIT:
            break
        found = trial(mutant, truth, inputs, expected)
        different += found.different
        assert not found.wrong, f"{change}: {found.wrong}"
    assert different == LIMIT
