"""Regions as one C++ file: the kernels, and a function for each region with its packed weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....analysis.composites.grouped import DEQUANTIZE
from ...backend.backend import Code
from ...backend.region import Call, Region, Tensor
from ..common.region_source import Constants, ints, row, tensors
from .packed_kernels import (
    BITS,
    EXACT,
    HALF,
    LIMBS,
    TYPES,
    code_of,
    has_limbs,
    kernels_of,
    panels_in_cpp,
    product_fields,
    product_of,
    views_of,
)
from .patterns import reduced_axis
from .stored_words import SIZES, headers, stored_words
from .weight_panels import Panels, packed

FUNCTION = """%(finish)s
static void %(symbol)s_(const View* t) {
  const View others[] = {%(others)s};
  static const bool half[] = {%(half)s};
  %(weights)s
  %(check)s
  %(kernel)s, %(left)s, t[%(count)d - 1], others, half, %(number)d, %(name)s);
}
OPINFO_FUNCTION(%(symbol)s) {
  static const int64_t rows[] = {%(rows)s};
  View t[%(count)d];
  if (int code = given(t, "%(symbol)s", args, count, %(count)d, rows)) return code;
  return opinfo::guarded([&] { %(symbol)s_(t); });
}
"""
#: Extents that the table of rows leaves open.
CHECK = """expect_depth("%(symbol)s", %(left)s, %(axis)d, %(depth)d);
  expect_rows("%(symbol)s", %(left)s, t[%(last)d], others, %(number)d);"""
USING = """
using namespace opinfo_weight_only;
"""


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    stored = any(not is_packed(region) for region in regions)
    return code_of(regions, _function, USING, rounding, headers() if stored else ())


def rounding(region: Region) -> str:
    """How a region rounds differently from its operators."""
    out = [LIMBS] if has_limbs() and is_packed(region) else []
    results = {c.result.dtype for c in region.calls}
    if "float16" in results:
        out += [EXACT] if region.calls[0].result.dtype == "float16" else []
        out += [HALF]
    return "; ".join(out)


def is_packed(region: Region) -> bool:
    """Whether the weights are packed when a model is compiled, and not read as they are stored."""
    return all(t.source == "constant" for t in _stored(region)[0])


def packed_weights(region: Region) -> Panels:
    """The weights of a region as its kernel reads them."""
    tensors, attrs = _stored(region)
    return packed([region.constants[t.index] for t in tensors], attrs, summed_axis(region))


def _stored(region: Region) -> tuple[tuple[Tensor, ...], Mapping[str, Any]]:
    """The words, scales and zero points, and the attributes of the dequantisation."""
    call = region.find(DEQUANTIZE)
    assert call is not None
    return tuple(o for o in call.operands if isinstance(o, Tensor)), call.attrs


def summed_axis(region: Region) -> int:
    """The axis of the stored matrix that the product of a region sums over."""
    k = product_of(region)
    axis = reduced_axis(region.calls[k].op, region.calls[k].attrs)
    assert axis is not None
    for move in region.calls[:k]:
        if move.op == "relax.permute_dims" and _exchanges(move):
            axis = 1 - axis
    return axis


def depth(region: Region) -> int:
    """The number of products that a sum of a region has."""
    call = region.find(DEQUANTIZE)
    assert call is not None
    return int(call.result.shape[summed_axis(region)])


def _exchanges(move: Call) -> bool:
    axes = move.attrs["axes"]
    return not isinstance(axes, (list, tuple)) or int(axes[0]) % 2 == 1


def _function(region: Region, constants: Constants) -> str:
    k = product_of(region)
    left = region.calls[k].operands[0]
    assert isinstance(left, Tensor)
    all_tensors = tensors(region)
    types = TYPES[left.dtype], TYPES[region.result.dtype]
    packed = is_packed(region)
    declared, kernel = (_panels if packed else _words)(region, constants, types)
    table = BITS if packed else SIZES
    fields = product_fields(region, left, views_of(region, constants))
    return FUNCTION % {
        **fields, "check": "" if all(t.static for t in all_tensors) else CHECK % {
            **fields, "axis": len(left.shape) - 1, "last": len(all_tensors) - 1,
            "depth": depth(region)},
        "weights": declared, "kernel": kernel, "count": len(all_tensors),
        "rows": ", ".join(ints(row(t, table[t.dtype])) for t in all_tensors),
    }  # fmt: skip


def _panels(region: Region, constants: Constants, types: tuple[str, str]) -> tuple[str, str]:
    """The C++ of packed weights, and of the call of their kernel up to them."""
    panels = packed_weights(region)
    return (f"const Weights w{panels_in_cpp(panels, constants)};",
            f"product<{', '.join(types)}>(w, {kernels_of(panels)}")  # fmt: skip


def _words(region: Region, constants: Constants, types: tuple[str, str]) -> tuple[str, str]:
    """The same of weights as they are stored."""
    tensors, attrs = _stored(region)
    axis = summed_axis(region)
    call = region.find(DEQUANTIZE)
    assert call is not None
    view, columns = views_of(region, constants), str(call.result.shape[1 - axis])
    if not all(t.static for t in (call.result, *tensors)):
        columns = (f'columns_of("{region.symbol}", t[{len(region.inputs)}], {1 - axis}, '
                   f"{{{', '.join(map(view, tensors))}}})")  # fmt: skip
    declared = stored_words(tensors, attrs, axis - 2, depth(region), columns, view)
    return declared, f"all_rows<{', '.join(types)}>(w"
