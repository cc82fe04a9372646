"""Calls of converters; one that raises loses only the regions that it cannot convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..backend.backend import Backend, Code
from ..backend.region import Region
from ..patterns.failure import Fault, ForeignError, foreign


def converted(
    backend: Backend, regions: Sequence[Region]
) -> tuple[list[Code], dict[str, Fault], Fault | None]:
    """The code of a backend's regions, the faults of regions without code, and the joint fault.

    All regions are converted at once. If that fails, which the joint fault explains, each region is
    converted alone, into its own file.
    """
    try:
        return [code(backend, regions)], {}, None
    except ForeignError as error:
        together = Fault("convert", str(error))
    codes, wrong = [], {}
    for region in regions:
        try:
            codes.append(code(backend, [region]))
        except ForeignError as error:
            wrong[region.symbol] = Fault("convert", str(error))
    return codes, wrong, together


def code(backend: Backend, regions: Sequence[Region]) -> Code:
    """The converter's code. Raises `ForeignError` if it raises or returns something else."""
    with foreign():
        converted = backend.convert(regions)
        _check(converted, regions)
    return converted


def _check(result: Any, regions: Sequence[Region]) -> None:
    """Raises ``TypeError`` or ``ValueError`` unless the result is code for these regions."""
    if not isinstance(result, Code):
        raise TypeError(f"it returned {result!r}, expected a Code")
    if not isinstance(result.source, str):
        raise TypeError(f"Code.source must be C++, got {result.source!r}")
    _pairs("constants", result.constants)
    for name, array in result.constants:
        if not hasattr(array, "shape") or str(getattr(array, "dtype", "object")) == "object":
            raise TypeError(f"Code.constants: {name} must be an array, got {array!r}")
    _pairs("rounds", result.rounds)
    for field, values in (("symbols", result.symbols), ("options", result.options)):
        wrong = [v for v in values if not isinstance(v, str)]
        if isinstance(values, str) or wrong:
            raise TypeError(f"Code.{field} must be strings, got {values!r}")
    missing = [r.symbol for r in regions if r.symbol not in result.symbols]
    if missing:
        raise ValueError(f"Code.symbols has no {', '.join(missing)}")


def _pairs(field: str, values: Any) -> None:
    for pair in values:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(f"Code.{field} must be pairs of a name and a value, got {pair!r}")


def converter(backends: Mapping[str, Backend]) -> Callable[[Sequence[Region]], list[Code]]:
    """A function that converts some regions; ``backends`` has the backend of each symbol."""

    def convert(regions: Sequence[Region]) -> list[Code]:
        assigned: dict[str, list[Region]] = {}
        for region in regions:
            assigned.setdefault(backends[region.symbol].name, []).append(region)
        named = {b.name: b for b in backends.values()}
        return [code(named[n], rs) for n, rs in assigned.items()]

    return convert
