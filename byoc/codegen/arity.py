"""Whether exported functions take as many tensors as they are handed.

A region's function gets its inputs, then its results. `TVM_FFI_DLL_EXPORT_TYPED_FUNC` and
`OPINFO_TYPED` export what a function takes beside it; one that says nothing is not checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..backend.region import Region


class Miscalled(TypeError):
    """Functions that are handed other tensors than they take: why, by symbol."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__(next(iter(wrong.values())))
        self.wrong = wrong


def check_calls(library: Any, regions: Sequence[Region]) -> None:
    """Raises `Miscalled` for functions of a loaded library that are called wrongly."""
    if wrong := miscalled(library, regions):
        raise Miscalled(wrong)


def miscalled(library: Any, regions: Sequence[Region]) -> dict[str, str]:
    """By symbol, what is wrong with the functions of a loaded library that are called wrongly."""
    out = {}
    for r in regions:
        count = parameters(library, r.symbol)
        given = len(r.inputs) + len(r.results)
        if count is not None and count != given:
            out[r.symbol] = (
                f"{r.symbol} takes {count} tensors and is handed {given}: {_of(r)}; literals are "
                "in Call.arguments, constants in Region.constants"
            )
    return out


def parameters(library: Any, symbol: str) -> int | None:
    """How many arguments a function takes, if it says so."""
    told = library.get_function_metadata(symbol, query_imports=True)
    if not told:
        return None
    schema = told["type_schema"]
    schema = json.loads(schema) if isinstance(schema, str) else schema
    args = schema.get("args")
    return len(args) - 1 if args else None  # the first one is the result


def _of(r: Region) -> str:
    inputs = "1 input" if len(r.inputs) == 1 else f"{len(r.inputs)} inputs"
    results = "1 result" if len(r.results) == 1 else f"{len(r.results)} results"
    return f"{inputs}, {results}"
