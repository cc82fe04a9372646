"""Of cases that go the same way the suite takes a part; `make sweep` takes the rest.

Where two lists of parameters are combined, the part has each entry of both at least once; where
more are, each pair of entries of two lists:

    @pytest.mark.part
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("backend", ["onednn", "blas"])

Which of the combinations these are follows from their names, so it differs between tests. Where
parameters are in a list, the test says which cases cover every branch:

    @pytest.mark.part("neox", "yarn")

The names are those in brackets that pytest prints. Where a test draws its cases itself, it takes
one of so many with the fixture `one_in`:

    for change, mutant in one_in(3, mutants(func)):

What is not in the part gets the marker `sweep`. A case that the command line names runs anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")
#: The entry of each list: the names of its parameters, and what stands for their values.
Entries = frozenset[tuple[tuple[str, ...], tuple[int, ...]]]


def mark_rest(items: Sequence[pytest.Item], args: Sequence[str]) -> None:
    """Mark the cases that are not in the part of their test.

    Args:
        items: The tests that were found.
        args: What the command line names.

    Raises:
        pytest.UsageError: A marker names a case that the test does not have.
    """
    if any("[" in arg for arg in args):
        return
    for name, cases in _by_test(items).items():
        named = cases[0].get_closest_marker("part").args
        ids = {case.callspec.id: case for case in cases}
        if unknown := sorted(set(named) - ids.keys()):
            raise pytest.UsageError(
                f"{name}: the marker `part` names {unknown}, expected some of {sorted(ids)}; "
                "correct the names"
            )
        taken = set(named) or part_of({k: _entries(c) for k, c in ids.items()})
        for case in (c for k, c in ids.items() if k not in taken):
            case.add_marker(pytest.mark.sweep)


def _by_test(items: Iterable[pytest.Item]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("part") is not None:
            found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return found


def _entries(case: Any) -> Entries:
    """What a case has of each of its lists of parameters: its names and the identities of values.

    pytest gives all cases of an entry the same objects.
    """
    lists = (mark.args[0] for mark in case.iter_markers("parametrize"))
    names = (n.replace(" ", "").split(",") if isinstance(n, str) else n for n in lists)
    return frozenset((tuple(n), tuple(id(case.callspec.params[k]) for k in n)) for n in names)


def part_of(cases: dict[str, Entries]) -> set[str]:
    """Few cases that have each entry of up to two lists, or each pair of entries of more lists.

    Args:
        cases: The entries of each case, by its name.

    Returns:
        The names of the cases. Of cases that add as much, names decide, by their digests.
    """
    size = 2 if max(map(len, cases.values())) > 2 else 1
    has = {name: set(combinations(sorted(entries), size)) for name, entries in cases.items()}
    order = sorted(cases, key=lambda name: (crc32(name.encode()), name))
    missing = set().union(*has.values())
    taken: set[str] = set()
    while missing:
        best = max(order, key=lambda name: len(has[name] & missing))
        taken.add(best)
        missing -= has[best]
    return taken


@dataclass(frozen=True)
class OneIn:
    """Takes one of so many cases, of which the name decides the first; or all.

    Attributes:
        name: The test's.
        whole: Whether it takes all.
    """

    name: str
    whole: bool

    def __call__(self, count: int, cases: Iterable[T]) -> Iterator[T]:
        """Take one of ``count``."""
        first, step = (0, 1) if self.whole else (crc32(self.name.encode()) % count, count)
        return islice(cases, first, None, step)

    def least(self, count: int, whole: int) -> float:
        """How many there have to be of one of ``count``, if of all it were ``whole``."""
        return whole if self.whole else whole / count
