"""A part of cases has each entry of each list of parameters, or those that the test names."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from . import part

#: Three values of ``a``, and five pairs of ``b`` and ``c``.
CASES = {f"{'xyz'[i]}-{j}": {"a": i, "b": j, "c": j} for i, j in product(range(3), range(5))}


def _items(*names: str, test: str = "t.py::test") -> list[Any]:
    return [_Item(test, case, names) for case in CASES]


class _Item(SimpleNamespace):
    def __init__(self, test: str, case: str, names: tuple[str, ...]) -> None:
        super().__init__(nodeid=f"{test}[{case}]", names=names, added=[])
        self.callspec = SimpleNamespace(id=case, params=CASES[case])

    def iter_markers(self, _: str) -> Any:
        return [SimpleNamespace(args=("a", "xyz")), SimpleNamespace(args=(("b", "c"), ()))]

    def get_closest_marker(self, _: str) -> Any:
        return SimpleNamespace(args=self.names)

    def add_marker(self, marker: Any) -> None:
        self.added.append(marker.name)


def _left(items: list[Any]) -> set[str]:
    part.mark_rest(items, ["tests"])
    assert all(item.added in ([], ["sweep"]) for item in items)
    return {item.callspec.id for item in items if not item.added}


def test_each_entry_of_each_list_is_in_few_cases() -> None:
    taken = _left(_items())
    assert len(taken) == 5 and taken <= CASES.keys()
    assert {c[0] for c in taken} == set("xyz") and {c[2] for c in taken} == set("01234")


def test_the_entries_of_one_list_all_stay() -> None:
    cases: Any = {str(k): frozenset({(("seed",), (k,))}) for k in range(4)}
    assert part.part_of(cases) == cases.keys()


def test_of_three_lists_each_pair_of_entries_is_in_few_cases() -> None:
    places = list(product(range(4), range(3), range(2)))
    cases: Any = {str(p): frozenset(zip("abc", p, strict=True)) for p in places}
    taken = [p for p in places if str(p) in part.part_of(cases)]
    assert len(taken) < len(places) * 2 / 3
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert {(p[i], p[j]) for p in taken} == {(p[i], p[j]) for p in places}


def test_the_cases_that_a_test_names_stay() -> None:
    assert _left(_items("x-1", "z-0")) == {"x-1", "z-0"}


def test_a_case_that_is_not_there_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match=r"names \['w-1'\], expected some of \['x-0'"):
        part.mark_rest(_items("x-1", "w-1"), [])


def test_a_case_that_the_command_line_names_runs() -> None:
    items = _items("x-1")
    part.mark_rest(items, ["t.py::test[y-2]"])
    assert not any(item.added for item in items)


def test_one_of_three_is_taken_from_a_first_that_the_name_decides() -> None:
    firsts = set()
    for name in "abcdefgh":
        taken = list(part.OneIn(name, False)(3, range(9)))
        assert taken == list(range(taken[0], 9, 3)) and taken[0] < 3
        firsts.add(taken[0])
    assert firsts == {0, 1, 2}
    assert list(part.OneIn("a", True)(3, range(9))) == list(range(9))
    assert [part.OneIn("a", whole).least(3, 30) for whole in (False, True)] == [10, 30]
