"""Regions as one C++ file: a function for each, which all get their constants at load time."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ...backend.backend import Code
from ...backend.region import Array, Region, Tensor
from ...codegen.abi import ABI
from ..common.epilogue import statements
from ..common.region_source import VIEWS, ints, row
from .locate import options
from .patterns import PRODUCTS, order

FUNCTION = """%(finish)s
OPINFO_FUNCTION(%(symbol)s) {
  using T = %(type)s;
  static const int64_t shapes[] = {%(shapes)s};
  View t[%(count)d];
  if (int code = given(t, "%(symbol)s", args, count, %(count)d, shapes)) return code;
  const View others[] = {%(others)s};
  return multiply<T>("%(symbol)s", %(left)s, %(right)s, t[%(count)d - 1], others, %(number)d,
                     %(name)s);
}
"""
FINISH = """
static void %s(%s* out, const %s* const* p, const int64_t* s, int64_t n) {
  using T = %s;
  for (int64_t j = 0; j < n; ++j) {
    T v = out[j];
    %s
    out[j] = v;
  }
}
"""
TYPES = {"float32": "float", "float64": "double"}
BITS = {"float32": 32, "float64": 64}


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    constants: list[Array] = []
    functions = [_function(r, constants) for r in regions]
    symbols = tuple(r.symbol for r in regions)
    named = tuple((f"{symbols[0]}_constant_{k}", a) for k, a in enumerate(constants))
    runtime = VIEWS + (files(__package__) / "gemm.hpp").read_text(encoding="utf-8")
    start = f"OPINFO_CONSTANTS({symbols[0]}, weights)\n"
    return Code("".join([ABI, runtime, *functions, start]), symbols, named, options())


def _function(region: Region, constants: list[Array]) -> str:
    k = next(k for k, c in enumerate(region.calls) if c.op in PRODUCTS)
    tensors = (*region.inputs, region.result)
    others: list[Tensor] = []
    epilogue = statements(region.calls[k + 1 :], others)

    def view(tensor: Tensor) -> str:
        if tensor.source == "constant":
            constants.append(region.constants[tensor.index])
            return f"constant({len(constants) - 1})"
        return f"t[{tensor.index}]"

    def operand(tensor: object) -> str:
        assert isinstance(tensor, Tensor)
        if tensor.source != "call":
            return view(tensor)
        (source,) = region.calls[tensor.index].operands
        assert isinstance(source, Tensor)
        axes = order(region.calls[tensor.index].attrs["axes"], len(source.shape))
        return f'{view(source)}.permuted("{"".join(map(str, axes))}")'

    product = region.calls[k]
    left, right = (
        f'{operand(tensor)}.permuted("{_swapped(tensor)}")' if swap else operand(tensor)
        for tensor, swap in zip(
            product.operands, product.attrs.get("transposed", (False, False)), strict=True
        )
    )
    kind, name = TYPES[region.result.dtype], f"{region.symbol}_finish"
    return FUNCTION % {
        "finish": FINISH % (name, kind, kind, kind, "\n    ".join(epilogue)) if epilogue else "",
        "name": name if epilogue else "nullptr", "type": kind, "symbol": region.symbol,
        "shapes": ", ".join(map(_shape, tensors)), "count": len(tensors),
        "others": ", ".join([*map(view, others), "View{}"]), "number": len(others),
        "left": left, "right": right,
    }  # fmt: skip


def _swapped(tensor: object) -> str:
    """The axes of a tensor with the last two swapped."""
    assert isinstance(tensor, Tensor)
    rank = len(tensor.shape)
    return "".join(map(str, [*range(rank - 2), rank - 1, rank - 2]))


def _shape(tensor: Tensor) -> str:
    """The row of a tensor in the table of shapes: rank, bits, extents."""
    return ints(row(tensor, BITS[tensor.dtype]))
