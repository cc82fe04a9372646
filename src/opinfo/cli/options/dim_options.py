"""Parse options about dimensions: ``n=8:512:8`` for ranges, ``n=1,16`` for values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..run.exit_status import UserError
from .shared_options import once

EXAMPLES = {
    "--dim": "n=1:128", "--likely": "n=1,16", "--range": "n=1:4,17:128", "--op": "relax.matmul=aot",
}  # fmt: skip


def named(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Parse an option ``NAME=VALUE``, given at most once for each name."""
    pairs = []
    for text in texts or ():
        name, _, value = text.partition("=")
        if not (name and value):
            raise UserError(
                f"{option} {text}: expected NAME=VALUE, as in {option} {EXAMPLES[option]}"
            )
        pairs.append((name, value))
    return once(option, pairs)


def declared(ranges: Mapping[str, str], likely: Mapping[str, str]) -> dict[str, Any]:
    """Return a `Dim` for each dimension of ``--dim`` and ``--likely``."""
    from ...jit import Dim

    dims = {}
    for name in {**ranges, **likely}:
        bounds = _bounds(f"--dim {name}", ranges.get(name, "1:"))
        values = _values(f"--likely {name}", likely[name]) if name in likely else ()
        try:
            dims[name] = Dim(*bounds, likely=values)
        except ValueError as error:
            option = "--dim" if name in ranges else "--likely"
            raise UserError(f"{option} {name}: {error}") from None
    return dims


def settings(ranges: Mapping[str, str], largest: bool, pad: bool) -> dict[str, Any]:
    """Return the fields of `Aot` that ``--range``, ``--max`` and ``--pad`` set."""
    from ...jit import Range

    fields: dict[str, Any] = {}
    for name, text in ranges.items():
        option = f"--range {name}"
        try:
            parts = tuple(Range(*_bounds(option, part)) for part in text.split(","))
        except ValueError as error:
            raise UserError(f"{option}: {error}") from None
        fields.setdefault("ranges", {})[name] = parts
    return fields | ({"max": True} if largest else {}) | ({"pad": True} if pad else {})


def with_settings(strategy: str, fields: Mapping[str, Any]) -> Any:
    """Return a strategy by name; the settings apply to ``aot``."""
    from ...jit import Aot

    return Aot(**fields) if strategy == "aot" and fields else strategy


def _bounds(option: str, text: str) -> tuple[int, int | None, int]:
    """Parse ``LOW:HIGH`` or ``LOW:HIGH:MULTIPLE``; without HIGH the range is unbounded."""
    low, *parts = text.split(":")
    numbers = [low, *filter(None, parts[:1]), *parts[1:]]
    if len(parts) not in (1, 2) or not all(map(_is_number, numbers)):
        raise UserError(f"{option}: expected integers LOW:HIGH or LOW:HIGH:MULTIPLE, where HIGH "
                        f"may be omitted, got {text}")  # fmt: skip
    high, multiple = [*parts, "1"][:2]
    return int(low), int(high) if high else None, int(multiple)


def _values(option: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(map(_is_number, parts)):
        raise UserError(f"{option}: expected comma-separated integers, got {text}")
    return tuple(map(int, parts))


def _is_number(text: str) -> bool:
    return text.strip().isdecimal() and text.isascii()
