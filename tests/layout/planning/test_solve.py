"""Programs are solved to proven optimality, also where their relaxation has fractions."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from opinfo.layout.search.layout_problem import BinaryProgram
from opinfo.layout.search.solve import solve


def test_a_relaxation_with_fractions_is_branched_on() -> None:
    """Two of three: halves of all three would be cheaper."""
    edges = [(0, 1), (1, 2), (0, 2)]
    one = BinaryProgram([1.0, 1.0, 1.0], [(1.0, {a: 1.0, b: 1.0}) for a, b in edges])
    found = solve(one)
    assert (found.objective, found.bound, found.status, found.parts) == (2.0, 2.0, "optimal", 1)
    assert len(found.chosen) == 2


def test_the_solver_prints_nothing() -> None:
    """HiGHS prints its banner once in a process."""
    program = "BinaryProgram([2.0, 3.0], [(1.0, {0: 1.0, 1: 1.0})])"
    code = (
        "import sys; sys.modules['torch'] = None  # TVM would import it\n"
        "from opinfo.layout.search.layout_problem import BinaryProgram\n"
        f"from opinfo.layout.search.solve import solve\nprint(solve({program}).chosen)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("frozenset({0})\n", "")


def test_equal_parts_are_solved_in_their_own_variables() -> None:
    rows = [(1.0, {k: 1.0, k + 1: 1.0}) for k in (0, 2, 4)]
    found = solve(BinaryProgram([3.0, 1.0, 3.0, 1.0, 1.0, 3.0], rows))
    assert found.chosen == {1, 3, 4} and found.parts == 3
    assert found.objective == found.bound == 3.0


@pytest.mark.parametrize("seed", range(20))
def test_against_all_assignments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = [float(c) for c in rng.integers(1, 9, 8)]
    rows = []
    for _ in range(9):
        columns = rng.choice(8, 3, replace=False)
        signs = [1.0, 1.0, float(rng.choice([-1, 1]))]
        rows.append((float(rng.integers(0, 2)), dict(zip(map(int, columns), signs, strict=True))))
    costing = [
        sum(c for c, on in zip(costs, x, strict=True) if on)
        for x in product((0, 1), repeat=8)
        if all(sum(k * x[v] for v, k in row.items()) >= low for low, row in rows)
    ]
    found = solve(BinaryProgram(costs, rows))
    assert found.objective == pytest.approx(min(costing)) and found.status == "optimal"
    assert sum(costs[k] for k in found.chosen) == pytest.approx(found.objective)
    assert all(sum(k for v, k in row.items() if v in found.chosen) >= low for low, row in rows)


def test_a_program_without_a_solution_raises() -> None:
    with pytest.raises(ValueError, match="no solution"):
        solve(BinaryProgram([1.0, 1.0], [(1.0, {0: 1.0, 1: 1.0}), (0.0, {0: -1.0, 1: -1.0})]))
