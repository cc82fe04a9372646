"""isl, which shares no code with ours, agrees with our verdicts and confirms our inverses.

Unlike enumeration it judges symbolic sizes for all of their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm.tirx import IndexMap

from opinfo.analysis import invert

from . import corpus, fuzz, isl_oracle, symbolic_fuzz
from .oracle import as_map

#: Of isl itself: enough for all but exclusive or over many bits.
OPERATIONS = 20_000


def judged(index_map: IndexMap, shape: Sequence[Any], sizes: Sequence[str] = ()) -> str:
    """Our answer by isl: ``confirmed``, ``agreed`` without an inverse, or ``undecided``."""
    found = invert(index_map, shape)
    try:
        with isl_oracle.budget(OPERATIONS) as context:
            relation = isl_oracle.relation(context, index_map, shape, sizes)
            verdict = isl_oracle.verdict(relation)
            assert found.verdict == verdict, found
            if not isinstance(found.inverse, IndexMap):
                return "agreed"
            inverse = isl_oracle.inverse_relation(context, found.inverse, relation, sizes)
            assert isl_oracle.inverse_is_right(relation, inverse), found
            return "confirmed"
    except (isl_oracle.NotAffine, isl_oracle.OutOfBudget):
        return "undecided"


def test_isl_agrees_on_the_corpus() -> None:
    count = Counter[str]()
    for case in corpus.corpus():
        fn, shape = case.build(*(tvm.tirx.Var(s, "int64") for s in case.sizes))
        count[judged(as_map(fn, len(shape)), shape, case.sizes)] += 1
    assert count["confirmed"] > 250 and count["confirmed"] + count["agreed"] > 300, count


def test_isl_agrees_on_random_maps() -> None:
    count = Counter[str]()
    for seed in range(50_000, 50_120):
        m = (fuzz.mutant if seed % 3 == 0 else fuzz.bijective)(seed)
        count[judged(as_map(m.fn, len(m.shape)), m.shape)] += 1
    assert count["confirmed"] > 50, count


def test_isl_confirms_inverses_over_all_symbolic_sizes() -> None:
    count = Counter[str]()
    for seed in range(50_000, 50_120):
        fn, shape = symbolic_fuzz.symbolic(seed).build({s: tvm.tirx.Var(s, "int64") for s in "nm"})
        count[judged(as_map(fn, len(shape)), shape, ("n", "m"))] += 1
    assert count["confirmed"] > 30, count


@pytest.mark.parametrize("shift", [0, 2])
def test_isl_refutes_an_inverse_that_is_wrong(shift: int) -> None:
    rotation = as_map(lambda i: ((i + 3) % 10,), 1)
    back = as_map(lambda y: ((y + 7 + shift) % 10,), 1)
    with isl_oracle.budget() as context:
        relation = isl_oracle.relation(context, rotation, (10,))
        inverse = isl_oracle.inverse_relation(context, back, relation)
        assert isl_oracle.inverse_is_right(relation, inverse) is (shift == 0)


def test_isl_refuses_what_it_cannot_represent_and_what_takes_too_long() -> None:
    with isl_oracle.budget() as context, pytest.raises(isl_oracle.NotAffine, match="variables"):
        isl_oracle.relation(context, as_map(lambda i, j: (i * j,), 2), (3, 4))
    with pytest.raises(isl_oracle.OutOfBudget, match="10 operations"):
        with isl_oracle.budget(10) as context:
            gray = isl_oracle.relation(context, as_map(lambda i: (i ^ i // 2,), 1), (64,))
            isl_oracle.verdict(gray)
