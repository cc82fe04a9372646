"""Pieces of C++ that converters share: constants, a region's frame, its exported function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from ...backend.region import Array, Call, Region, Tensor
from ...codegen.abi import ABI

#: In tables of shapes: an extent that is known only at run time.
UNKNOWN = -1
#: Tensors as views, for generated functions that compute themselves; it follows `ABI`.
VIEWS = (files(__package__) / "views.hpp").read_text(encoding="utf-8")
#: Loops over threads, for kernels of our own; nothing need precede it.
LOOPS = (files(__package__) / "threads.hpp").read_text(encoding="utf-8")
#: The same for code of a library whose other code may have threads of its own.
THREADS = LOOPS + (files(__package__) / "team.hpp").read_text(encoding="utf-8")
#: The option of code with `THREADS`: it tells `build_library` that the library has a team.
TEAM = "-DOPINFO_TEAM"
#: Memory in large pages; nothing need precede it.
LARGE_PAGES = (files(__package__) / "large_pages.hpp").read_text(encoding="utf-8")


@dataclass
class Constants:
    """The arrays of a model, numbered over all regions."""

    arrays: list[Array] = field(default_factory=list)

    def add(self, array: Array) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def named(self, symbol: str) -> tuple[tuple[str, Any], ...]:
        """The arrays by unique names."""
        return tuple((f"{symbol}_constant_{k}", a) for k, a in enumerate(self.arrays))


@dataclass
class RegionSource(ABC):
    """A region whose C++ is being written."""

    region: Region
    constants: Constants

    def view(self, tensor: Tensor) -> str:
        """The C++ of a tensor of the call, or of a constant."""
        if tensor.source == "constant":
            return self.constant(self.region.constants[tensor.index])
        return self.tensor(tensor.index if tensor.source == "input" else len(self.region.inputs))

    @abstractmethod
    def tensor(self, index: int) -> str:
        """The C++ of a tensor of the call, by number; the result is the last one."""

    @abstractmethod
    def constant(self, array: Array) -> str:
        """The C++ of an array that is known when the code is generated."""

    @property
    def result(self) -> str:
        return self.view(self.region.result)


def tensors(region: Region) -> tuple[Tensor, ...]:
    """The tensors that a region is called with, in order."""
    return (*region.inputs, region.result)


def row(tensor: Tensor, *dtype: int) -> list[int]:
    """The row of a tensor in a region's table: rank, dtype, extents."""
    extents = [e if isinstance(e, int) else UNKNOWN for e in tensor.shape]
    return [len(extents), *dtype, *extents]


def exported(
    region: Region, returns: str, parameter: str, body: Sequence[str], rows: Sequence[Sequence[int]]
) -> str:
    """A region's exported function; ``body`` creates a kernel of type ``returns``."""
    symbol = region.symbol
    inside = "\n".join(f"  {line}" for line in body)
    return f"""
static {returns} {symbol}_make({parameter}) {{
{inside}
}}
static const int64_t {symbol}_spec[] = {{{", ".join(map(ints, rows))}}};
static Function {symbol}_("{symbol}", {symbol}_make, {len(rows)}, {symbol}_spec);
OPINFO_EXPORT({symbol})
"""


def init_function(symbol: str, arguments: str = "") -> str:
    """The exported function that gets the constants of all regions at load time."""
    return f"""
OPINFO_FUNCTION(__init_{symbol}) {{ return begin(args, result{arguments}); }}
"""


def headers(package: str | None, *names: str) -> str:
    """The C++ that all regions share, followed by a package's headers."""
    extra = [files(package) / name for name in names] if package else []
    paths = [files(__package__) / "regions.hpp", *extra]
    return ABI + "".join(p.read_text(encoding="utf-8") for p in paths)


def ints(values: Iterable[Any]) -> str:
    """Integers as a C++ initializer list, without braces."""
    return ", ".join(str(int(v)) for v in values)


def literal(call: Call, name: str) -> float | None:
    """A literal argument as a float; None if the argument is a tensor."""
    value = call.literal(name)
    return None if value is None else float(value)


def number(value: float) -> str:
    """A C++ float literal with all digits."""
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{np.float32(value)!r}".removeprefix("np.float32(").removesuffix(")") + "f"
