"""Packed channels: wants that are met whatever the kernel is, and which layouts do not flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import tirx as T

from opinfo.layout import Digit, Layout, plan_layout
from opinfo.layout.access.flow import flow
from opinfo.layout.access.layout_only import conversions_in
from opinfo.layout.rewrite.rewrite import Rewritten, rewrite

from ...common.prim_funcs import lowered
from ...common.run import run
from .. import nets
from ..oracle import check

Shape = tuple[int, ...]


def convolution(x: Shape, w: Shape, groups: int, given: bool) -> Any:
    """conv2d → relu; ``given``: the kernel is a parameter."""

    def build(emit: Any, rng: Any, x: Any, *ws: Any) -> Any:
        kernel = ws[0] if ws else nets.const(rng, *w)
        y = emit(relax.op.nn.conv2d(x, kernel, padding=1, groups=groups))
        return emit(relax.op.nn.relu(y))

    return nets.net(build, x, *([w] if given else []))


@pytest.mark.part
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "image, kernel, groups, wanted",
    [
        ((1, 16, 8, 8), (8, 16, 3, 3), 1, ["CHWN", "IHWO"]),  # the kernel is larger than the image
        ((1, 16, 8, 8), (8, 16, 3, 3), 1, ["NCHW4c", "OIHW4i4o"]),
        ((1, 12, 5, 5), (10, 12, 3, 3), 1, ["NCHW8c", "OIHW8i8o"]),
        ((1, 16, 5, 5), (32, 8, 3, 3), 2, ["NCHW4c", "OIHW4i4o"]),
        ((1, 20, 5, 5), (12, 10, 3, 3), 2, ["NCHW8c", "OIHW8i8o"]),
        ((1, 6, 5, 5), (18, 1, 3, 3), 6, ["NCHW4c", "OIHW4i4o"]),  # half a block of x a block of y
    ],
)
def test_what_is_wanted_of_a_convolution_is_met(
    image: Shape, kernel: Shape, groups: int, wanted: list[str], given: bool
) -> None:
    mod = convolution(image, kernel, groups, given)
    planned = plan_layout(mod, {"conv2d": wanted})
    conv, relu = planned.report.ops
    assert conv.implementation == wanted[0] and relu.implementation == "NCHW"
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(s).astype("float32") for s in (image, kernel)[: 1 + given]]
    (want,) = run(mod, values)
    (got,) = run(relax.transform.LegalizeOps()(planned.module), values)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_digits_of_a_group_are_those_of_its_channels() -> None:
    """in[f // 16 * 8 + r]: what is packed of the input is the lowest digit of r."""
    conv = lowered(lambda x, w: relax.op.nn.conv2d(x, w, groups=2), (1, 16, 8, 8), (32, 8, 3, 3))
    found = flow(conv)
    x, w, y = (b for b in found.params if b is not None)
    packed = Layout.parse("NCHW4c")
    known = found.spread({x: packed, y: packed})
    assert known is not None
    assert found.admits(known, w, Layout.parse("OIHW4i4o"), {x: packed, y: packed})
    assert found.spread({x: Layout.parse("NCHW16c"), y: packed}) is None  # of two groups


def test_a_depthwise_convolution_that_widens_is_not_local() -> None:
    conv = lowered(lambda x, w: relax.op.nn.conv2d(x, w, groups=8), (1, 8, 6, 6), (16, 1, 3, 3))
    x, _, y = (b for b in flow(conv).params if b is not None)
    packed = Layout.parse("NCHW4c")
    assert flow(conv).spread({x: packed, y: packed}) is None
    half = Layout(((Digit(0),), (Digit(1, 2),), (Digit(2),), (Digit(3),), (Digit(1, 1, 2),)))
    assert flow(conv).spread({x: half, y: packed}) is not None


def test_what_is_inside_of_a_transposed_convolution_goes_with_its_data() -> None:
    """The image is dilated, ``out[h] = x[h // 2]``: no reason to convert it."""
    shapes = ((1, 16, 5, 5), (16, 8, 2, 2))
    func = lowered(lambda x, w: relax.op.nn.conv2d_transpose(x, w, strides=(2, 2)), *shapes)
    packed, last = Layout.parse("NCHW4c"), Layout.parse("NHWC")
    for layout in (packed, last):
        new = rewrite(func, [layout, None, layout])
        assert isinstance(new, Rewritten) and conversions_in(new.func) == ()
    pad = rewrite(lowered(lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), shapes[0]),
                  [last, packed])  # fmt: skip
    assert isinstance(pad, Rewritten) and len(conversions_in(pad.func)) == 1


def test_extents_of_two_integer_types_are_filled() -> None:
    """A literal extent of a hand-written PrimFunc is int32 beside a symbol of int64."""

    @T.prim_func(private=True, s_tir=True)
    def func(p_x: T.handle, p_y: T.handle) -> None:
        n = T.int64()
        x = T.match_buffer(p_x, (3, n), "float32")
        y = T.match_buffer(p_y, (3, n), "float32")
        for i, j in T.grid(3, n):
            y[i, j] = x[i, j] + T.float32(1)

    layouts = [None, Layout.parse("AB2b")]
    found = rewrite(func, layouts)
    assert isinstance(found, Rewritten), found
    check(func, found.func, found.layouts, {"n": 5}, [])
