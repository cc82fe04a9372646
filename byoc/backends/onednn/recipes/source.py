"""The frame of a region's recipe, and its function in C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ....backend.region import Array, Region, Tensor
from ...common.region_source import RegionSource, ints, row, tensors
from .recipe import OperandView, Recipe


@dataclass
class OneDnnFunction(RegionSource):
    """A region whose recipe is written; ``rounds`` says where it rounds differently."""

    rounds: list[str] = field(default_factory=list)

    def tensor(self, index: int) -> str:
        return f"t{index}"

    def constant(self, array: Array) -> str:
        return f"c{self.constants.add(array)}"

    def of(self, tensor: Tensor) -> OperandView:
        """A tensor in the program's axes."""
        return OperandView(self.view(tensor))

    def fixed(self, array: Array) -> OperandView:
        """An array that is known when the code is generated."""
        return OperandView(self.constant(array))

    @property
    def out(self) -> OperandView:
        return OperandView(self.result)

    def matrix(self, tensor: Tensor, rank: int, merge: bool) -> OperandView:
        """A tensor with ``rank`` axes; ``merge`` joins all axes but the last."""
        full = self.of(tensor).expanded(rank)
        return full.merged() if merge else full


Converter = Callable[[OneDnnFunction], Recipe]


def order(layout: str, axes: str) -> list[int]:
    """``[0, 3, 1, 2]`` for NHWC in the order NCHW."""
    return [layout.index(c) for c in axes]


#: oneDNN's numbers of data types.
DTYPES = {"bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}


def rows_of(region: Region) -> list[list[int]]:
    """The rank, type and extents of each tensor that a region is called with."""
    return [row(t, DTYPES[t.dtype]) for t in tensors(region)]


def function(region: Region, recipe: str) -> str:
    """A region's exported function."""
    symbol, rows = region.symbol, rows_of(region)
    return f"""
static const int64_t {symbol}_spec[] = {{{", ".join(map(ints, rows))}}};
static void* const {symbol}_ =
    OPINFO_RUNTIME(function)(group, "{symbol}", "{recipe}", {len(rows)}, {symbol}_spec);
OPINFO_FUNCTION({symbol}) {{ return OPINFO_RUNTIME(call)({symbol}_, args, count, result); }}
"""


def start(symbols: Sequence[str]) -> str:
    """The function that gets the constants at load time, and creates kernels of fixed shapes."""
    body = "return OPINFO_RUNTIME(begin)(group, args, result);"
    return f"\nOPINFO_FUNCTION(__init_{symbols[0]}) {{ {body} }}\n"
