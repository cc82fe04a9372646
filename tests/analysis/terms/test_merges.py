"""Whether a sum over two axes is one over the axis that they are digits of."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Int, Var, as_int, fresh, integer, mul
from opinfo.analysis.undo_layouts.merges import _together

OUTER, INNER = 5, 4


@st.composite
def sums(draw: st.DrawFn) -> tuple[Int, Var, Var, Var]:
    """An integer, the two axes, another axis."""
    a, b, c = (fresh(integer(n), "a") for n in (OUTER, INNER, 3))
    terms = {v: as_int(v) for v in (a, b, c)}
    factor = draw(st.integers(-2, 2))
    high = draw(st.sampled_from([INNER * factor, draw(st.integers(-8, 8))]))
    scale = draw(st.sampled_from([integer(1), terms[c]]))
    whole = mul(terms[a], integer(high)) + mul(terms[b], integer(factor))
    return mul(whole, scale) + terms[c], a, b, c


@given(sums())
def test_together_is_what_the_values_say(case: tuple[Int, Var, Var, Var]) -> None:
    p, a, b, c = case
    whole = np.arange(OUTER * INNER)
    for at in range(3):
        values = evaluate(p, {a: whole // INNER, b: whole % INNER, c: np.full_like(whole, at)})
        if not (np.diff(values) == values[1] - values[0]).all():
            assert not _together(p, (a, b), integer(INNER))
            return
    assert _together(p, (a, b), integer(INNER)) in (True, None)
