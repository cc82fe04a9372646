"""Whether layout attributes tell how all buffers of a PrimFunc lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.s_tir import Schedule

from opinfo.analysis.answer.analyser import analyser
from opinfo.analysis.results.op_info import LayoutNormalised, OpInfo
from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.layout import plan_layout

from ...common.prim_funcs import prim_funcs
from ...layout import nets
from ...layout.nets import const

nn = relax.op.nn
CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], dict[str, Any], bool, str]] = {
    "axes in another order, which the op has attributes for": (
        lambda e, r, x: e(nn.conv2d_transpose(x, const(r, 4, 6, 2, 2), strides=(2, 2))),
        (1, 4, 5, 5), {"nn.conv2d_transpose": ("NHWC", "IOHW")}, False, "NHWC"),
    "packed": (
        lambda e, r, x: e(nn.conv2d(x, const(r, 8, 8, 3, 3))),
        (1, 8, 5, 5), {"nn.conv2d": ("NCHW4c", "OIHW4i4o")}, True, "NCHW4c"),
    "as it lowers": (
        lambda e, r, x: e(nn.conv2d(x, const(r, 8, 8, 3, 3))),
        (1, 8, 5, 5), {"nn.conv2d": ("NHWC", "OHWI")}, False, "NHWC"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_expressed(name: str) -> None:
    build, shape, wants, packed, layout = CASES[name]
    planned = plan_layout(nets.net(build, shape), wants).module
    funcs = prim_funcs(planned)
    infos = [i for i in (analyser()(f).info for f in funcs) if isinstance(i, OpInfo)]
    (found,) = (i for i in infos if "conv" in i.name)
    assert (found.packed, found.attrs["data_layout"]) == (packed, layout)


def test_buffers_that_no_attribute_tells_of_are_not_expressed() -> None:
    """Softmax has no layout: its buffers are permuted, and it is along the axis that it was."""
    mod = nets.net(lambda e, r, x: e(nn.softmax(x, 1)), (4, 6, 5))
    (func,) = (f for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    sch = Schedule(tvm.IRModule({"main": copied(func)}))
    sch.transform_layout("T_softmax_norm", ("write", 0), lambda i, j, k: (k, i, j))
    found = analyser()(sch.mod["main"]).info
    assert isinstance(found, LayoutNormalised)
    assert found.layouts == ("ABC", "CAB")
