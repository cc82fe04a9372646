"""The pieces of C++ that the converters share: views of tensors, constants, a region's frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..region import Array, Region, Tensor
from .dims import static


@dataclass
class Constants:
    """The arrays of a model, numbered over all regions."""

    arrays: list[Array] = field(default_factory=list)

    def add(self, array: Array) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1


@dataclass
class Frame:
    """A region whose C++ is being written."""

    region: Region
    constants: Constants

    def view(self, t: Tensor) -> str:
        """A tensor in the axes of the program."""
        if t.source == "constant":
            return self.constant(self.region.constants[t.index])
        k = t.index if t.source == "input" else len(self.region.inputs)
        return f"View::plain(in[{k}], {k})"

    def constant(self, array: Array) -> str:
        k = self.constants.add(array)
        return f"View::plain({{{ints(array.shape)}}}, ~{k})"

    @property
    def result(self) -> str:
        return self.view(self.region.result)


Converter = Callable[[Frame], list[str]]
"""The statements of a function of ``in``, the shapes, that returns a ``Kernel``."""


def ints(values: Iterable[Any]) -> str:
    return ", ".join(str(int(v)) for v in values)


def permuted(layout: str, order: str) -> str:
    """``.permuted({0, 3, 1, 2})`` for NHWC in the order NCHW."""
    axes = [layout.index(c) for c in order]
    return "" if axes == list(range(len(axes))) else f".permuted({{{ints(axes)}}})"


def function(region: Region, body: Sequence[str]) -> str:
    """A region's exported function."""
    tensors = (*region.inputs, region.result)
    fixed = all(static(t.shape) for t in tensors)
    shapes = ", ".join(f"Dims{{{ints(t.shape)}}}" for t in tensors) if fixed else ""
    names = [f"t{k}" for k in range(len(tensors))]
    symbol = region.symbol
    inside = "\n".join(f"  {line}" for line in body)
    return f"""
static Kernel {symbol}_make(const Function::Shapes& in) {{
{inside}
}}
static Function {symbol}_({symbol}_make, {{{shapes}}});
static void {symbol}_call({", ".join(f"TensorView {n}" for n in names)}) {{
  {symbol}_({", ".join(names)});
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, {symbol}_call)
"""


def start(symbols: Sequence[str]) -> str:
    """What is called at load time with the constants: once, whoever else loads the library."""
    prepared = "\n".join(f"    {s}_.prepare();" for s in symbols)
    return f"""
static int64_t start(tvm::ffi::Array<tvm::ffi::Tensor> given) {{
  static std::once_flag once;
  std::call_once(once, [&] {{
    for (auto array : given) constants().push_back(std::make_unique<Constant>(array));
{prepared}
  }});
  return 0;
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(__init_{symbols[0]}, start)
"""
