"""Terms as text."""

from __future__ import annotations

from opinfo.analysis.terms.scalar import ge0
from opinfo.analysis.terms.show import reason, show
from opinfo.analysis.terms.term import Term, as_int, fresh, integer, size


def test_a_reason_numbers_loop_variables_by_their_mention() -> None:
    """The variables' own numbers depend on what a process did before."""

    n = size("n")  # terms are written in the order in which they were made

    def goal() -> Term:
        one, two = (as_int(fresh(integer(9), "q")) for _ in range(2))
        return ge0(one * 2 - two * 3 + n)

    first, second = goal(), goal()
    assert show(first) != show(second)
    assert reason(first) == reason(second)
    assert "q0" in reason(first) and "q1" in reason(first) and "n" in reason(first)
