"""A sample of the calls of TVM's own tests, and how they are stored."""

from __future__ import annotations

import json

import pytest

from benchmarks.analysis.harvest.__main__ import outcome, page
from benchmarks.analysis.harvest.calls import FILE, LICENCE, calls, read, source

from ..common.registry import lowered
from ..variants import Variant
from ..variants.judge import Verdict, judge
from ..variants.lower import dimensions, with_sizes

#: Symbolic kernels, offsets and indices, comparisons of two dtypes, a sort.
SAMPLE = {
    "relax.nn.conv1d(float32[a, b, c], float32[d, b, e]": "right",
    "relax.less(float32[2, 3], int32[2, 3])": "right",
    "relax.eye(n='=a', m='=a', k='=b')": "right",
    "relax.tril(float32[a, b, c], k='=a')": "right",
    "relax.take(float32[4, 10], indices='=a', axis=0)": "right",
    "relax.strided_slice(float32[8, 9], axes=(0,), begin=('=a',), end=(8,))": "right",
    "relax.argsort(": "extern",
    "relax.nn.group_norm(float32[a, b, c, d]": "refused",
}


def _call(start: str) -> Variant:
    return next(v for vs in calls().values() for v in vs if str(v).startswith(start))


@pytest.mark.parametrize(("start", "expected"), SAMPLE.items())
def test_sampled_calls(start: str, expected: str) -> None:
    verdict = judge(_call(start))
    assert outcome(verdict) == expected, verdict


def test_the_stored_calls_are_of_operators_that_tvm_lowers() -> None:
    head = json.loads(FILE.read_text().partition("\n")[0])
    assert head["licence"] == LICENCE["licence"] and head["commit"] in source()
    assert calls().keys() <= lowered()
    every = [str(v) for vs in calls().values() for v in vs]
    assert len(every) == len(set(every)) > 1000


def test_a_stored_call_has_tuples_and_expressions() -> None:
    row = {"op": "relax.f", "operands": ["float32[a, (b + 1)]"], "attrs": {"axes": [0, [1]]}}
    assert read(row).attrs == {"axes": (0, (1,))}
    assert dimensions("a, (b + 1) // 2, min(a, 3), -b", {"a": 4, "b": 6}) == [4, 3, 3, -6]
    assert with_sizes(("=a * 2", 7, "NCHW"), {"a": 5}) == (10, 7, "NCHW")
    index_map = with_sizes("i0, i1 -> i1, (i0 // 4)", {})
    assert [int(i) for i in index_map.map_indices([9, 2])] == [2, 2]
    assert str(with_sizes("int8(3)", {}).ty.dtype) == "int8"


def test_calls_of_extern_functions_do_not_count() -> None:
    verdicts = [
        Verdict("a", "exact", certificate="rebuilt"),
        Verdict("b", "exact", certificate="extern"),
        Verdict("c", "refused", "why"),
    ]
    text = page({"relax.x": verdicts})
    assert "Right: 1 of 2 (50.0 %), calls of extern functions aside; wrong: 0." in text
    assert "| `relax.x` | 3 | 1 | 1 | 1 |  |" in text and "- `c`: why" in text
