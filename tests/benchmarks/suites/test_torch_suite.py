"""Samples of torch's operators: which positions are open, and what larger inputs hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.overall.operator_suites.exported_programs import Program, grown
from benchmarks.overall.torch_suite.open_positions import Positions, open_positions
from benchmarks.overall.torch_suite.torch_cases import _called

X = torch.tensor([2.0, 1.0, 2.0, 1.0])


def _program(function: Any, *inputs: torch.Tensor) -> tuple[Program, Any]:
    program = Program(function, inputs or (X,))
    return program, program.exported()


class _Answer:
    """Stands for a compiled program, and returns tensors whatever its inputs are."""

    def __init__(self, *results: torch.Tensor) -> None:
        self._results = [np.asarray(x) for x in results]

    def run(self, *_: Any) -> list[Any]:
        return self._results


def _verdict(function: Any, *results: torch.Tensor) -> str:
    program, exported = _program(function)
    return _called(_Answer(*results), exported, program.inputs, program.results()).verdict


def test_positions_of_ties_are_open_unless_the_order_is_stable() -> None:
    ordered, ties = torch.tensor([1.0, 1.0, 2.0, 2.0]), torch.tensor([3, 1, 0, 2])
    assert _verdict(torch.sort, ordered, ties) == "right"
    assert _verdict(lambda x: x.argsort(), ties) == "right"
    assert _verdict(lambda x: torch.sort(x, stable=True), ordered, ties) == "wrong"
    assert _verdict(lambda x: torch.argsort(x, stable=True), ties) == "wrong"
    assert _verdict(lambda x: x.max(0), X[0], torch.tensor(2)) == "wrong"
    assert _verdict(lambda x: x.kthvalue(1), X[1], torch.tensor(3)) == "right"


@pytest.mark.parametrize(
    ("got", "text"),
    [([1, 1, 0, 2], "occur twice"), ([0, 1, 3, 2], "pick other"), ([1, 3, 0, 4], "outside")],
)
def test_open_positions_that_are_wrong(got: list[int], text: str) -> None:
    positions = Positions(X, 0)
    assert text in positions.difference(torch.tensor(got), torch.tensor([1, 3, 0, 2]))


def test_positions_pick_from_the_operand_of_their_operator() -> None:
    program, exported = _program(lambda x: (x + 1, (-x).topk(2)))
    (place,) = found = open_positions(exported, program.inputs)
    assert place == 2 and torch.equal(found[place].source, -X)


def test_larger_offsets_stay_sorted() -> None:
    """torch reads foreign memory for offsets that fall."""
    program = Program(lambda x, y: (x + 1, y + 1), (torch.tensor([0, 3]), torch.tensor([3, 0])))
    offsets, others = grown(program.exported(symbolic=True), program.inputs) or ()
    assert offsets.tolist() == [0, 0, 3, 3] and others.tolist() == [3, 0, 3, 0]
