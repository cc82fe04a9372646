"""The pieces of C++ that the converters share: a region's frame, permutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...backend.region import Array, Region, Tensor
from ..common.region_source import RegionSource, exported, init_function, row, tensors


@dataclass
class OneDnnFunction(RegionSource):
    """A region as C++; ``rounds`` says where it rounds differently. Axes are the program's."""

    rounds: list[str] = field(default_factory=list)

    def tensor(self, k: int) -> str:
        return f"tensor(in, {k})"

    def matrix(self, tensor: Tensor, rank: int, merge: bool) -> str:
        """The C++ of a tensor with ``rank`` axes; ``merge`` joins all axes but the last."""
        full = f"{self.view(tensor)}.expanded({rank})"
        return f"{full}.merged()" if merge else full

    def constant(self, array: Array) -> str:
        return f"constant({self.constants.add(array)})"


Converter = Callable[[OneDnnFunction], list[str]]
"""Returns the C++ body of a function of the shapes ``in`` that returns a ``Kernel``."""


def permuted(layout: str, order: str) -> str:
    """``.permuted("0312")`` for NHWC in the order NCHW."""
    return moved([layout.index(c) for c in order])


def moved(axes: Sequence[int]) -> str:
    return "" if list(axes) == sorted(axes) else f'.permuted("{"".join(map(str, axes))}")'


#: oneDNN's numbers of data types.
DTYPES = {"bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}


def function(region: Region, body: Sequence[str]) -> str:
    """A region's exported function."""
    rows = [row(t, DTYPES[t.dtype]) for t in tensors(region)]
    return exported(region, "Kernel", "const Shapes& in", body, rows)


def start(symbols: Sequence[str]) -> str:
    """The function that gets the constants at load time, and creates kernels of fixed shapes."""
    functions = ", ".join(f"&{s}_" for s in symbols)
    table = f"static Function* const functions[] = {{{functions}}};"
    return f"\n{table}{init_function(symbols[0], f', functions, {len(symbols)}')}"
