"""Regions as one C++ file: the kernels, and a function for each region with its packed weights."""

from __future__ import annotations

from collections.abc import Sequence

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
    product_fields,
    product_of,
    views_of,
)
from .patterns import reduced_axis
from .weight_panels import Panels, packed

FUNCTION = """%(finish)s
static void %(symbol)s_(const View* t) {
  const Weights w{%(sizes)s, packed_weights[%(data)d], packed_weights[%(scales)d], %(zeros)s};
  const View others[] = {%(others)s};
  static const bool half[] = {%(half)s};
  product<%(x)s, %(y)s>(w, kernels<%(bits)d, %(s)s>, %(left)s, t[%(count)d - 1], others, half,
                        %(number)d, %(name)s);
}
OPINFO_FUNCTION(%(symbol)s) {
  static const int64_t rows[] = {%(rows)s};
  View t[%(count)d];
  if (int code = given(t, "%(symbol)s", args, count, %(count)d, rows)) return code;
  return opinfo::guarded([&] { %(symbol)s_(t); });
}
"""
USING = """
using namespace opinfo_weight_only;
"""


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    return code_of(regions, _function, USING, rounding)


def rounding(region: Region) -> str:
    """How a region rounds differently from its operators."""
    out = [LIMBS] if has_limbs() else []
    results = {c.result.dtype for c in region.calls}
    if "float16" in results:
        out += [EXACT] if region.calls[0].result.dtype == "float16" else []
        out += [HALF]
    return "; ".join(out)


def packed_weights(region: Region) -> Panels:
    """The weights of a region as its kernel reads them."""
    call = region.find(DEQUANTIZE)
    assert call is not None
    k = product_of(region)
    arrays = [region.constants[o.index] for o in call.operands if isinstance(o, Tensor)]
    axis = reduced_axis(region.calls[k].op, region.calls[k].attrs)
    assert axis is not None
    for move in region.calls[:k]:
        if move.op == "relax.permute_dims" and _exchanges(move):
            axis = 1 - axis
    return packed(arrays, call.attrs, axis)


def _exchanges(move: Call) -> bool:
    axes = move.attrs["axes"]
    return not isinstance(axes, (list, tuple)) or int(axes[0]) % 2 == 1


def _function(region: Region, constants: Constants) -> str:
    k = product_of(region)
    panels = packed_weights(region)
    data, scales = constants.add(panels.data), constants.add(panels.scales)
    zeros = None if panels.zeros is None else constants.add(panels.zeros)
    sizes = (panels.depth, panels.columns, panels.group, panels.block, panels.part, panels.blocks,
             panels.offset)  # fmt: skip
    left = region.calls[k].operands[0]
    assert isinstance(left, Tensor)
    all_tensors = tensors(region)
    return FUNCTION % {
        **product_fields(region, left, views_of(region, constants)), "sizes": ints(sizes),
        "data": data, "scales": scales,
        "zeros": "nullptr" if zeros is None else f"packed_weights[{zeros}]",
        "bits": panels.bits, "s": TYPES[str(panels.scales.dtype)], "count": len(all_tensors),
        "rows": ", ".join(ints(row(t, BITS[t.dtype])) for t in all_tensors),
    }  # fmt: skip
