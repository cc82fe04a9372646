"""The pieces of C++ that the converters share: tensors, constants, a region's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from ....backend.region import Array, Region
from ...common.region_source import (
    Constants,
    RegionSource,
    exported,
    headers,
    init_function,
    row,
    tensors,
)
from .dtypes import CODES, DLPACK

#: The headers of all backends, in their order.
SHARED = ("recording.hpp", "device.hpp", "runtime.hpp", "graph_timer.hpp", "driver.hpp",
          "kept_texts.hpp")  # fmt: skip


@dataclass
class GpuFunction(RegionSource):
    """A region as C++; ``c`` is the context that it creates a kernel in."""

    def tensor(self, index: int) -> str:
        return f"c.tensor({index})"

    def constant(self, array: Array) -> str:
        return f"c.constant({self.constants.add(np.ascontiguousarray(array))})"

    def image(self, kernels: Array) -> int:
        """The number of the constant that is compiled kernels, which regions share."""
        arrays = self.constants.arrays
        known = next((k for k, array in enumerate(arrays) if array is kernels), None)
        return self.constants.add(kernels) if known is None else known


def library_headers(package: str | None, *names: str) -> str:
    """The C++ that all regions share, followed by headers of a package."""
    own = [files(package) / name for name in names] if package else []
    shared = headers(__package__, *SHARED)
    return shared + "".join(path.read_text(encoding="utf-8") for path in own)


def tensor_cores() -> str:
    """The CUDA C++ of products by tensor cores, for kernels of our own."""
    return (files(__package__) / "tensor_cores.cuh").read_text(encoding="utf-8")


def joined_source(
    heads: str,
    regions: Sequence[Region],
    body: Callable[[GpuFunction], Sequence[str]],
    more: str = "",
) -> tuple[str, Constants]:
    """One C++ file: the library's headers, the regions, and the init function.

    Args:
        heads: The headers; see `library_headers`.
        regions: The regions; each becomes an exported function.
        body: Returns the statements that create a region's kernel in the context ``c``.
        more: C++ that follows the headers.

    Returns:
        The C++, and its constants.
    """
    constants = Constants()
    functions = [_function(r, body(GpuFunction(r, constants))) for r in regions]
    return "".join([heads, more, *functions, init_function(regions[0].symbol)]), constants


def _function(region: Region, body: Sequence[str]) -> str:
    rows = [row(t, *{**DLPACK, **CODES}[t.dtype]) for t in tensors(region)]
    function = exported(region, "std::unique_ptr<Kernel>", "const Context& c", body, rows)
    return f"{function}OPINFO_CHECK({region.symbol})\n"
