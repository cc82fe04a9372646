"""The pieces of C++ that the converters share: tensors, constants, a region's function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from ...backend.region import Array, Region, Tensor
from ..onednn.source import Constants, ints
from .dtypes import DLPACK

#: Extents that are known at run time only, in the tables of shapes.
UNKNOWN = -1


@dataclass
class GpuFunction:
    """A region whose C++ is being written."""

    region: Region
    constants: Constants

    def view(self, t: Tensor) -> str:
        """A tensor of the call, or a constant."""
        if t.source == "constant":
            return self.constant(self.region.constants[t.index])
        k = t.index if t.source == "input" else len(self.region.inputs)
        return f"c.tensor({k})"

    def constant(self, array: Array) -> str:
        return f"c.constant({self.constants.add(np.ascontiguousarray(array))})"


def function(region: Region, body: Sequence[str]) -> str:
    """A region's exported function; ``body`` makes a kernel of the context ``c``."""
    tensors = (*region.inputs, region.result)
    symbol = region.symbol
    inside = "\n".join(f"  {line}" for line in body)
    return f"""
static std::unique_ptr<Kernel> {symbol}_make(const Context& c) {{
{inside}
}}
static const int64_t {symbol}_spec[] = {{{", ".join(map(_spec, tensors))}}};
static Function {symbol}_("{symbol}", {symbol}_make, {len(tensors)}, {symbol}_spec);
OPINFO_EXPORT({symbol})
"""


def _spec(t: Tensor) -> str:
    """Rank, DLPack's type code and bits, extents."""
    extents = [e if isinstance(e, int) else UNKNOWN for e in t.shape]
    return ints([len(extents), *DLPACK[t.dtype], *extents])


def start(symbol: str) -> str:
    """What is called at load time with the constants."""
    return f"""
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi___init_{symbol}(
    void*, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {{
  return begin(args, n, result);
}}
"""


def whole(header: str, functions: Sequence[str], symbols: Sequence[str]) -> str:
    """One file: what the backends share, what one library needs, the regions, the beginning."""
    here = files(__package__)
    heads = [(here / name).read_text(encoding="utf-8") for name in ("runtime.hpp", header)]
    return "".join([*heads, *functions, start(symbols[0])])


def named(constants: Constants, symbol: str) -> tuple[tuple[str, Any], ...]:
    return tuple((f"{symbol}_constant_{k}", a) for k, a in enumerate(constants.arrays))
