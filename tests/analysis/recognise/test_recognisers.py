"""Every case of every recogniser: its matches come back, also scheduled; its refusals do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any
from zlib import crc32

import pytest

from opinfo.analysis.recognise import Matches, Refuses, modules, recognisers
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.testing.recogniser_checks import SCHEDULES, check_match, check_refusal
from tests.oldest import first_of_each

#: Cases of a file that get all schedules. Of the others, one of each operator gets one, which its
#: digest decides; `make sweep` gives one to all. On the oldest TVM, whose operators are lowered to
#: other programs, but whose schedules are those of the newest, the others get none.
SCHEDULED = 2


def _tried(cases: Sequence[Any]) -> list[Any]:
    """On the oldest TVM one match of each operator and one refusal, else all."""
    return list(cases) if VERSION >= COMPLETE else first_of_each(cases, _operator)


def _operator(case: Matches | Refuses) -> str | None:
    return case.op if isinstance(case, Matches) else None


def _cases(kind: str) -> Iterator[Any]:
    for module in modules():
        short = module.__name__.rsplit(".", 1)[-1]
        for k, case in enumerate(_tried(getattr(module, kind, ()))):
            label = case.op.removeprefix("relax.") if kind == "MATCHES" else case.why
            yield pytest.param(module.__name__, case, id=f"{short}-{k}-{label}")


@pytest.mark.parametrize(("module", "case"), list(_cases("MATCHES")))
def test_match(module: str, case: Matches) -> None:
    check_match(case, _schedules(module, case))


def _schedules(module: str, case: Matches) -> int:
    """The number of schedules that a case is tried in."""
    if any(case is c for c in import_module(module).MATCHES[:SCHEDULED]):
        return SCHEDULES
    return int(VERSION >= COMPLETE and any(case is c for c in _drawn(module)))


@cache
def _drawn(module: str) -> list[Matches]:
    """A case of each operator."""
    cases = sorted(import_module(module).MATCHES, key=lambda c: crc32(repr(c).encode()))
    return first_of_each(cases, _operator)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("module", "case"), [c for c in _cases("MATCHES") if not _schedules(*c.values)]
)
def test_match_in_a_schedule(module: str, case: Matches) -> None:
    check_match(case, 1)


@pytest.mark.parametrize(("module", "case"), list(_cases("REFUSES")))
def test_refusal(module: str, case: Refuses) -> None:
    check_refusal(module, case)


def test_operators_have_cases() -> None:
    """An op that a recogniser declares is in a case of its file."""
    missing = {}
    for module in modules():
        shown = {op for case in getattr(module, "MATCHES", ()) for op in (case.op, case.name)}
        own = {op for r in recognisers() if r.run.__module__ == module.__name__ for op in r.ops}
        if own - shown:
            missing[module.__name__.rsplit(".", 1)[-1]] = sorted(own - shown)
    assert not missing
