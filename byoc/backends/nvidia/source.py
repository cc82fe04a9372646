"""The pieces of C++ that the converters share: tensors, constants, a region's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...backend.region import Array, Region
from ..common.region_source import RegionSource, exported, headers, init_function, row, tensors
from .dtypes import DLPACK


@dataclass
class GpuFunction(RegionSource):
    """A region as C++; ``c`` is the context that it creates a kernel in."""

    def tensor(self, k: int) -> str:
        return f"c.tensor({k})"

    def constant(self, array: Array) -> str:
        return f"c.constant({self.constants.add(np.ascontiguousarray(array))})"


def function(region: Region, body: Sequence[str]) -> str:
    """A region's exported function; ``body`` creates a kernel in the context ``c``."""
    rows = [row(t, *DLPACK[t.dtype]) for t in tensors(region)]
    return exported(region, "std::unique_ptr<Kernel>", "const Context& c", body, rows)


def joined_source(header: str, functions: Sequence[str], symbols: Sequence[str]) -> str:
    """One C++ file: shared code, the library's header, the regions, and the init function."""
    heads = headers(__package__, "runtime.hpp", header)
    return "".join([heads, *functions, init_function(symbols[0])])
