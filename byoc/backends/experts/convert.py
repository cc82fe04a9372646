"""Regions as one C++ file: the kernels, and a function for each region with its packed matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files

from ...backend.backend import Code
from ...backend.region import Region, Tensor
from ..common.region_source import Constants, ints, row, tensors
from ..weight_only.packed_kernels import (
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
from ..weight_only.stored_words import SIZES, headers, stored_words
from .expert_panels import dense_panels, grouped_panels
from .gathered_product import GatheredProduct, read

FUNCTION = """%(finish)s
static void %(symbol)s_(const View* t) {
  const View others[] = {%(others)s}, x = %(left)s, ids = %(ids)s, &out = t[%(last)d];
  static const bool half[] = {%(half)s};
  %(matrices)s
  expect_depth("%(symbol)s", x, %(axis)d, %(depth)d);
  Call<%(x)s, %(y)s>{x, out, others, half, %(number)d, %(name)s}.run<%(id)s>(
      w, %(columns)d, %(depth)d, ids, %(experts)d, %(clips)d);
}
OPINFO_FUNCTION(%(symbol)s) {
  static const int64_t rows[] = {%(rows)s};
  View t[%(last)d + 1];
  if (int code = given(t, "%(symbol)s", args, count, %(last)d + 1, rows)) return code;
  return opinfo::guarded([&] { %(symbol)s_(t); });
}
"""
USING = """
using namespace opinfo_experts;
"""


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    rows = (files(__package__) / "cpp" / "rows_of_experts.hpp").read_text(encoding="utf-8")
    return code_of(regions, _function, USING, rounding, [*headers(), rows])


def gathered(region: Region) -> GatheredProduct:
    """The product of a region that a pattern took."""
    of = read(region)
    assert isinstance(of, GatheredProduct), of
    return of


def rounding(region: Region) -> str:
    """How a region rounds differently from its operators."""
    of = gathered(region)
    packed = all(t.source == "constant" for t in of.matrices)
    out = [LIMBS] if of.group is not None and packed and has_limbs() else []
    if of.group is not None and of.group.result.dtype == "float16":
        out.append(EXACT)
    calls = region.calls[product_of(region) :]
    return "; ".join([*out, HALF] if any(c.result.dtype == "float16" for c in calls) else out)


def _function(region: Region, constants: Constants) -> str:
    of, every, view = gathered(region), tensors(region), views_of(region, constants)
    return FUNCTION % {
        **product_fields(region, of.rows, view), "ids": view(of.ids),
        "matrices": _matrices(region, of, constants, view),
        "id": f"{of.ids.dtype}_t", "columns": of.columns, "depth": of.depth,
        "experts": of.experts, "clips": of.clips, "last": len(every) - 1, "axis": _depth_axis(of),
        "rows": ", ".join(ints(row(t, SIZES[t.dtype])) for t in every),
    }  # fmt: skip


def _depth_axis(of: GatheredProduct) -> int:
    """The axis of the activations, (n, k), (rows, n, k) or (n, k, 1), that is summed over."""
    shape = of.rows.shape
    return len(shape) - (2 if of.alone and shape[-1] == 1 else 1)


def _matrices(
    region: Region, of: GatheredProduct, constants: Constants, view: Callable[[Tensor], str]
) -> str:
    """The C++ of the matrices: packed constants, or parameters."""
    first = of.matrices[0]
    if of.group is not None and any(t.source != "constant" for t in of.matrices):
        return stored_words(of.matrices, of.group.attrs, of.axis - 3, of.depth,
                            str(of.columns), view)  # fmt: skip
    if first.source != "constant":
        kind = TYPES[first.dtype]
        return (f"const Plain<{kind}> w{{{of.depth}, {of.columns}, reinterpret_cast<const {kind}*>("
                f"t[{first.index}].data), {int(of.axis == 2)}}};")  # fmt: skip
    arrays = [region.constants[t.index] for t in of.matrices]
    if of.group is None:
        dense = dense_panels(arrays[0], of.axis, of.dtypes)
        kind = TYPES[str(dense.dtype)]
        return (f"const Dense<{kind}> w{{{of.depth}, {of.columns}, reinterpret_cast<const {kind}*>("
                f"packed_weights[{constants.add(dense)}])}};")  # fmt: skip
    panels = grouped_panels(arrays, of)
    kind = TYPES[str(panels.scales.dtype)]
    one = replace(panels, depth=of.depth, columns=of.columns)
    return (f"const Grouped w{{{panels_in_cpp(one, constants)}, {kernels_of(panels)}, "
            f"{panels.bits}, sizeof({kind})}};")  # fmt: skip
