"""Check that exported functions take as many tensors as they are called with.

The function of a region takes its inputs, then its results. `TVM_FFI_DLL_EXPORT_TYPED_FUNC` and
`OPINFO_TYPED` export the signature with the function; without one, nothing is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...backend.region import Region


class Miscalled(TypeError):
    """Functions are called with the wrong number of tensors; ``wrong`` says why, by symbol."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__(next(iter(wrong.values())))
        self.wrong = wrong


def check_calls(library: Any, regions: Sequence[Region]) -> None:
    """Raises `Miscalled` if functions of a loaded library get the wrong number of tensors."""
    if wrong := miscalled(library, regions):
        raise Miscalled(wrong)


def miscalled(library: Any, regions: Sequence[Region]) -> dict[str, str]:
    """Why functions of a loaded library get the wrong number of tensors, by symbol."""
    out = {}
    for region in regions:
        count = parameters(library, region.symbol)
        passed = len(region.inputs) + len(region.results)
        if count is not None and count != passed:
            out[region.symbol] = (
                f"{region.symbol} takes {count} tensors but is called with {passed}: "
                f"{_of(region)}; literals are in Call.arguments, constants in Region.constants"
            )
    return out


def parameters(library: Any, symbol: str) -> int | None:
    """The number of arguments that a function takes; None if it does not say."""
    metadata = library.get_function_metadata(symbol, query_imports=True)
    if not metadata:
        return None
    schema = metadata["type_schema"]
    schema = json.loads(schema) if isinstance(schema, str) else schema
    args = schema.get("args")
    return len(args) - 1 if args else None  # the first is the result


def _of(region: Region) -> str:
    inputs = "1 input" if len(region.inputs) == 1 else f"{len(region.inputs)} inputs"
    results = "1 result" if len(region.results) == 1 else f"{len(region.results)} results"
    return f"{inputs}, {results}"
