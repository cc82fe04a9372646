"""Which tests run on the oldest TVM that analysis, planning and raising work with, and which fail.

    make oldest     an environment with that TVM, and these tests in it

Tests that cannot pass there are expected to fail, for the reason listed here. If one passes, remove
its line.

What differs between versions are operators and their lowering, the parser, the builder of blocks
and schedules. Cases that differ in sizes, or in what opinfo does with the same program, find the
same differences, so of those a part runs there: of recognisers one match of each operator and one
refusal of each file, of others what `KEPT` says. The newest version runs all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

#: Files and folders below `tests` that need neither dispatch nor kernels.
RUNS = (
    "analysis/chain",
    "analysis/answers/test_annotate.py",
    "analysis/answers/test_annotated_fusion.py",
    "analysis/lifting/breaches/test_breaches.py",
    "analysis/lifting/breaches/test_breaches_of_types_and_shapes.py",
    "analysis/undo_layouts/test_layout_normalised.py",
    "analysis/answers/test_legalise.py",
    "analysis/lifting/test_lift.py",
    "analysis/recognise/test_pad_modes.py",
    "analysis/terms/test_lost_bits.py",
    "analysis/answers/test_reasons.py",
    "analysis/recognise/test_recognisers.py",
    "byoc/raising/test_raise_ops.py",
    "byoc/raising/test_raise_relaid.py",
    "layout/planning/test_plan.py",
    "layout/planning/test_plan_limits.py",
    "test_oldest.py",
    "report/test_report.py",
)

_SHIFTS = "a shift is a call with a script in 0.26, whose builder refuses these amounts"
_SOFTMAX = "the operator of 0.26 has no apply_softmax"
_DEVICES = "0.26 has no relax.VDevice"
_COMPILES = "opinfo.compile needs 0.27"
_LEGALISE = "analysis/answers/test_legalise.py::test_"
#: Tests that fail on 0.26, by the start of their names, and why.
FAILS = {
    f"{_LEGALISE}same_as_the_pass[vision.multibox_transform_loc]": _SOFTMAX,
    f"{_LEGALISE}an_expression_is_what_the_builder_makes_of_it[multi": _SOFTMAX,
    "analysis/answers/test_reasons.py::test_no_reason_holds_an_address": _SHIFTS,
    "analysis/answers/test_reasons.py::test_what_has_no_script_is_its_kind_and_operands": _SHIFTS,
    "analysis/answers/test_reasons.py::test_the_error_of_an_index_map_holds_no_address": _SHIFTS,
    "analysis/recognise/test_recognisers.py::test_match[multibox": _SOFTMAX,
    "layout/planning/test_plan_limits.py::test_values_stay_on_their_devices": _DEVICES,
    "report/test_report.py::test_what_is_named_is_there": _COMPILES,
}
#: Which cases run of tests with many, by position modulo the number of flags. Each net of plans is
#: planned in one of two modes, which differ after TVM's part.
KEPT = {
    "layout/planning/test_plan.py::test_few_conversions_and_equal_results": (1, 0, 0, 1),
}


def reason(name: str) -> str | None:
    """Why a test fails on the oldest TVM, by its name as pytest prints it."""
    inside = name.removeprefix("tests/")
    return next((why for start, why in FAILS.items() if inside.startswith(start)), None)


def first_of_each(cases: Sequence[T], key: Callable[[T], object]) -> list[T]:
    """The first case of each key."""
    return list({key(case): case for case in reversed(cases)}.values())[::-1]


def leave_out(items: list[pytest.Item]) -> None:
    """Remove from the tests those that `KEPT` does not have."""
    counts: Counter[str] = Counter()
    staying = []
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        flags = KEPT.get(name, (1,))
        if flags[counts[name] % len(flags)]:
            staying.append(item)
        counts[name] += 1
    items[:] = staying


def expect_failures(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that fail on the oldest TVM; each must."""
    for item in items:
        why = reason(item.nodeid)
        if why is not None:
            item.add_marker(pytest.mark.xfail(reason=f"TVM 0.26: {why}", strict=True))


def paths() -> Sequence[str]:
    """The arguments for pytest, relative to the repository's root."""
    return [f"tests/{path}" for path in RUNS]


if __name__ == "__main__":
    print(*paths())
