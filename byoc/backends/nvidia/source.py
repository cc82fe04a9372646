"""The pieces of C++ that the converters share: tensors, constants, a region's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...backend.region import Array, Region
from ..common.region_source import (
    Constants,
    RegionSource,
    exported,
    headers,
    init_function,
    row,
    tensors,
)
from .dtypes import DLPACK

#: The headers of all backends, in their order.
SHARED = ("graphs/recording.hpp", "runtime.hpp")


@dataclass
class GpuFunction(RegionSource):
    """A region as C++; ``c`` is the context that it creates a kernel in."""

    def tensor(self, k: int) -> str:
        return f"c.tensor({k})"

    def constant(self, array: Array) -> str:
        return f"c.constant({self.constants.add(np.ascontiguousarray(array))})"


def joined_source(
    header: str | Sequence[str],
    regions: Sequence[Region],
    body: Callable[[GpuFunction], Sequence[str]],
    more: str = "",
) -> tuple[str, Constants]:
    """One C++ file: shared code, the library's headers, the regions, and the init function.

    Args:
        header: The library's header, or several in their order.
        regions: The regions; each becomes an exported function.
        body: Returns the statements that create a region's kernel in the context ``c``.
        more: C++ that follows the headers.

    Returns:
        The C++, and its constants.
    """
    constants = Constants()
    functions = [_function(r, body(GpuFunction(r, constants))) for r in regions]
    names = (header,) if isinstance(header, str) else header
    heads = headers(__package__, *SHARED, *names)
    return "".join([heads, more, *functions, init_function(regions[0].symbol)]), constants


def _function(region: Region, body: Sequence[str]) -> str:
    rows = [row(t, *DLPACK[t.dtype]) for t in tensors(region)]
    function = exported(region, "std::unique_ptr<Kernel>", "const Context& c", body, rows)
    return f"{function}OPINFO_CHECK({region.symbol})\n"
