"""The pieces of C++ that the converters share: views of tensors, constants, a region's frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backend.region import Array, Region, Tensor


@dataclass
class Constants:
    """The arrays of a model, numbered over all regions."""

    arrays: list[Array] = field(default_factory=list)

    def add(self, array: Array) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1


@dataclass
class OneDnnFunction:
    """A region whose C++ is being written; ``rounds``: how it is rearranged."""

    region: Region
    constants: Constants
    rounds: list[str] = field(default_factory=list)

    def view(self, t: Tensor) -> str:
        """A tensor in the axes of the program."""
        if t.source == "constant":
            return self.constant(self.region.constants[t.index])
        k = t.index if t.source == "input" else len(self.region.inputs)
        return f"tensor(in, {k})"

    def constant(self, array: Array) -> str:
        return f"constant({self.constants.add(array)})"

    @property
    def result(self) -> str:
        return self.view(self.region.result)


Converter = Callable[[OneDnnFunction], list[str]]
"""The statements of a function of ``in``, the shapes, that returns a ``Kernel``."""


def ints(values: Iterable[Any]) -> str:
    return ", ".join(str(int(v)) for v in values)


def permuted(layout: str, order: str) -> str:
    """``.permuted("0312")`` for NHWC in the order NCHW."""
    return moved([layout.index(c) for c in order])


def moved(axes: Sequence[int]) -> str:
    return "" if list(axes) == sorted(axes) else f'.permuted("{"".join(map(str, axes))}")'


#: Extents that are known at run time only, in the tables of shapes.
UNKNOWN = -1
#: oneDNN's numbers of data types.
DTYPES = {"bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}


def function(region: Region, body: Sequence[str]) -> str:
    """A region's exported function."""
    tensors = (*region.inputs, region.result)
    symbol = region.symbol
    inside = "\n".join(f"  {line}" for line in body)
    return f"""
static Kernel {symbol}_make(const Shapes& in) {{
{inside}
}}
static const int64_t {symbol}_shapes[] = {{{", ".join(map(_shape, tensors))}}};
static Function {symbol}_("{symbol}", {symbol}_make, {len(tensors)}, {symbol}_shapes);
OPINFO_EXPORT({symbol})
"""


def _shape(t: Tensor) -> str:
    """Rank, data type, extents."""
    extents = [e if isinstance(e, int) else UNKNOWN for e in t.shape]
    return ints([len(extents), DTYPES[t.dtype], *extents])


def start(symbols: Sequence[str]) -> str:
    """What is called at load time with the constants: once, whoever else loads the library."""
    functions = ", ".join(f"&{s}_" for s in symbols)
    return f"""
static Function* const functions[] = {{{functions}}};
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi___init_{symbols[0]}(
    void*, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {{
  return begin(args, n, result, functions, {len(symbols)});
}}
"""
