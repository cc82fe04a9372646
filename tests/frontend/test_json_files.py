"""JSON files that users give: an error names the file and the place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opinfo.analysis.support.files.checked_json import Json, Malformed, parse
from opinfo.byoc import DispatchPlan, PlanRefused
from opinfo.jit.tune.record import RecordError, Recording
from opinfo.jit.tune.schedule_database import SEARCHED, OpenDatabase, TuneError

PLAN = {
    "format": 2,
    "module": "0123456789abcdef",
    "backends": {"toy": "1"},
    "regions": [{"function": "main", "backend": "toy", "pattern": "relu", "ops": [0, 1]}],
    "status": "optimal",
    "layouts": {"main": [[None, {"dims": [[[0, 4, None]], [[0, 1, 4]]], "pad": 0.5}]]},
}
RECORD = {
    "format": 1,
    "functions": {"f": "{}"},
    "shapes": [{"site": "s", "function": "f", "values": {"n": 3}, "count": 2}],
}
TUNED = {"f {}": {"trials": 3, "microseconds": 1.5, "structure": None}}


def _known(path: Path) -> OpenDatabase:
    folder = path.parent / "tuned"
    folder.mkdir(exist_ok=True)
    OpenDatabase(folder, exclusive=True)  # makes the other files
    (folder / SEARCHED).write_bytes(path.read_bytes())
    return OpenDatabase(folder)


#: A file that is read, its reader, and the error that the reader raises.
FILES: dict[str, tuple[Any, Callable[[Path], Any], type[Exception]]] = {
    "plan": (PLAN, DispatchPlan.load, PlanRefused),
    "record": (RECORD, Recording.load, RecordError),
    "tuned": (TUNED, _known, TuneError),
}
OTHERS: tuple[Any, ...] = (None, True, -1, 1.5, "nope", [], {}, [[]], {"nope": 1})


def _places(value: Any) -> Iterator[tuple[Any, ...]]:
    yield ()
    inner = value.items() if isinstance(value, dict) else ()
    for key, v in enumerate(value) if isinstance(value, list) else inner:
        yield from ((key, *rest) for rest in _places(v))


def _with(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


@pytest.mark.parametrize("kind", FILES)
def test_what_is_right_is_read(kind: str, tmp_path: Path) -> None:
    good, load, _ = FILES[kind]
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(good))
    assert load(path)


@pytest.mark.parametrize("kind", FILES)
def test_any_other_value_at_any_place_is_read_or_refused_in_one_line(
    kind: str, tmp_path: Path
) -> None:
    good, load, error = FILES[kind]
    path = tmp_path / f"{kind}.json"
    refused = 0
    for place in _places(good):
        for other in OTHERS:
            path.write_text(json.dumps(_with(good, place, other)))
            try:
                load(path)
            except error as e:
                refused += 1
                message = str(e)
                assert "\n" not in message and str(tmp_path) in message
                assert re.search("expected", message), message
                assert not re.search(r"KeyError|TypeError|object has no|indices must", message), (
                    message
                )
    assert refused > 20


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "line 1, column 2: this is not JSON"),
        (b"\xff", "byte 0: this is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "this JSON cannot be read"),
        (b'{"nope": 1}', "nope|format"),
    ],
    ids=["cut off", "no text", "deep", "digits", "another"],
)
def test_invalid_json_is_refused(kind: str, tmp_path: Path, text: bytes, message: str) -> None:
    _, load, error = FILES[kind]
    path = tmp_path / f"{kind}.json"
    path.write_bytes(text)
    with pytest.raises(error, match=message) as e:
        load(path)
    assert "\n" not in str(e.value)


def test_places_are_named() -> None:
    plan = parse(json.dumps(PLAN))
    for place, read in {
        "regions[0].ops": lambda: plan["regions"].items()[0]["ops"].text(),
        "layouts.main[0]": lambda: plan["layouts"]["main"].items()[0].integer(),
        "the whole": plan.items,
    }.items():
        with pytest.raises(Malformed, match=re.escape(f"{place}: expected")):
            read()


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_an_integer_is_an_integer(value: Any) -> None:
    with pytest.raises(Malformed, match="expected an integer, got"):
        Json(value, "count").integer()
