"""Read untrusted JSON: an error names the place of the wrong value.

>>> plan = parse('{"regions": [{"ops": 3}]}')
>>> plan["regions"].items()[0]["ops"].items()
Traceback (most recent call last):
...
opinfo.analysis.support.files.checked_json.Malformed: regions[0].ops: expected a list, got 3
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

#: The names of Python's types in JSON.
KINDS = {dict: "an object", list: "a list", str: "a string", int: "an integer", float: "a number"}


class Malformed(ValueError):
    """A value is not as expected; the message has the place, and what is expected and present."""


@dataclass(frozen=True)
class Json:
    """A value and its place, ``regions[2].ops``. All methods raise `Malformed`."""

    value: Any
    place: str = ""

    def __getitem__(self, key: str) -> Json:
        """Return a field of an object."""
        fields = self._is(dict)
        if key not in fields:
            raise self.malformed(f"expected the field {key!r}", f"it has {_list(fields)}")
        return Json(fields[key], f"{self.place}.{key}" if self.place else key)

    def fields(self) -> dict[str, Json]:
        """Return all fields of an object."""
        return {key: self[key] for key in self._is(dict)}

    def items(self) -> list[Json]:
        """Return the elements of a list."""
        return [Json(v, f"{self.place}[{k}]") for k, v in enumerate(self._is(list))]

    def text(self) -> str:
        """Return a string."""
        return str(self._is(str))

    def integer(self) -> int:
        """Return an integer that is not a bool."""
        return int(self._is(int))

    def number(self) -> float | int:
        """Return a finite number that is not a bool; an integer stays one."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return self.value
        number = float(self._is(float))
        if not math.isfinite(number):
            raise self.malformed("expected a finite number", f"got {number}")
        return number

    def malformed(self, expected: str, got: str | None = None) -> Malformed:
        """Return the error for an unexpected value at this place."""
        got = f"got {_shown(self.value)}" if got is None else got
        return Malformed(f"{self.place or 'the whole'}: {expected}, {got}")

    def _is(self, kind: type) -> Any:
        if not isinstance(self.value, kind) or isinstance(self.value, bool):
            raise self.malformed(f"expected {KINDS[kind]}")
        return self.value


def parse(text: str | bytes) -> Json:
    """Parse JSON; raise `Malformed` if it is not valid."""
    try:
        return Json(json.loads(text, object_pairs_hook=_once))
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start}: this is not JSON: {error.reason}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"{place}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise Malformed("this JSON cannot be read: it is nested too deeply") from None
    except Malformed:
        raise
    except ValueError as error:  # a number with too many digits
        raise Malformed(f"this JSON cannot be read: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a field that occurs twice would have its last value, silently."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Malformed(f"the field {_shown(twice)} occurs twice in an object")
    return fields


def _list(names_of: Any) -> str:
    names = ", ".join(repr(str(k)[:40]) for k in list(names_of)[:8])
    return names + (", …" if len(names_of) > 8 else "") or "none"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr) if not isinstance(value, (dict, list)) else ""
    kind = f"{KINDS[type(value)]} of {len(value)}" if isinstance(value, (dict, list)) else text
    return kind if len(kind) <= 60 else kind[:59] + "…"
