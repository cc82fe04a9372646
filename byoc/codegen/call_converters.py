"""Converters called so that what one raises costs its regions, and is told of each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..backend.backend import Backend, Code
from ..backend.region import Region
from ..patterns.failure import Fault, ForeignError, foreign


def converted(
    b: Backend, regions: Sequence[Region]
) -> tuple[list[Code], dict[str, Fault], Fault | None]:
    """The code of a backend's regions; what is wrong with those that have none, by symbol.

    All are converted at once. If that fails each one is alone, and the last result is why: a
    converter that fails on no single region has a file for each.
    """
    try:
        return [code(b, regions)], {}, None
    except ForeignError as e:
        together = Fault("convert", str(e))
    codes, wrong = [], {}
    for r in regions:
        try:
            codes.append(code(b, [r]))
        except ForeignError as e:
            wrong[r.symbol] = Fault("convert", str(e))
    return codes, wrong, together


def code(b: Backend, regions: Sequence[Region]) -> Code:
    """The converter's code; `ForeignError` if it raises or returns something else."""
    with foreign():
        made = b.convert(regions)
        _check(made, regions)
    return made


def _check(made: Any, regions: Sequence[Region]) -> None:
    """Raises ``TypeError`` or ``ValueError`` for anything but code for these regions."""
    if not isinstance(made, Code):
        raise TypeError(f"it returned {made!r}, expected a Code")
    if not isinstance(made.source, str):
        raise TypeError(f"Code.source must be C++, got {made.source!r}")
    _pairs("constants", made.constants)
    for name, a in made.constants:
        if not hasattr(a, "shape") or str(getattr(a, "dtype", "object")) == "object":
            raise TypeError(f"Code.constants: {name} must be an array, got {a!r}")
    _pairs("rounds", made.rounds)
    for field, values in (("symbols", made.symbols), ("options", made.options)):
        wrong = [v for v in values if not isinstance(v, str)]
        if isinstance(values, str) or wrong:
            raise TypeError(f"Code.{field} must be strings, got {values!r}")
    missing = [r.symbol for r in regions if r.symbol not in made.symbols]
    if missing:
        raise ValueError(f"Code.symbols has no {', '.join(missing)}")


def _pairs(field: str, found: Any) -> None:
    for x in found:
        if not (isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str)):
            raise TypeError(f"Code.{field} must be pairs of a name and a value, got {x!r}")


def converter(backends: Mapping[str, Backend]) -> Callable[[Sequence[Region]], list[Code]]:
    """The code of regions by symbol, as a dispatch converted them, or `ForeignError`."""

    def convert(regions: Sequence[Region]) -> list[Code]:
        by: dict[str, list[Region]] = {}
        for r in regions:
            by.setdefault(backends[r.symbol].name, []).append(r)
        named = {b.name: b for b in backends.values()}
        return [code(named[n], rs) for n, rs in by.items()]

    return convert
