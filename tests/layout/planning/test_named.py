"""Implementations by name: what they choose, that results are the same, what they leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from opinfo.analysis import Refusal
from opinfo.analysis.blocks.blocks import stages
from opinfo.layout import Layout, plan_layout
from opinfo.layout.rewrite.loop_order import DEPTH, WIDTH
from opinfo.layout.rewrite.rewrite import rewrite

from ...common.prim_funcs import lowered
from .. import nets, oracle
from .test_plan import check_same

IMAGE = (1, 3, 16, 16)
NHWC = Layout.parse("NHWC")


def images(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Convolutions of all kinds, and a classifier."""
    nn, const = relax.op.nn, nets.const
    y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 16, 3, 3, 3), padding=1))))
    y = emit(nn.conv2d(y, const(rng, 16, 1, 3, 3), padding=1, groups=16))
    y = emit(nn.conv2d(y, const(rng, 24, 16, 1, 1)))
    y = emit(nn.max_pool2d(y, (2, 2), (2, 2)))
    y = emit(relax.op.mean(y, [2, 3]))
    return emit(relax.op.matmul(y, const(rng, 24, 10)))


def grouped(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    return emit(relax.op.nn.conv2d(x, nets.const(rng, 16, 4, 3, 3), padding=1, groups=4))


def tiny(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Moving the image costs more than its convolution of one element saves."""
    return emit(relax.op.nn.conv2d(x, nets.const(rng, 4, 16, 1, 1), strides=16))


def loops(mod: Any, name: str) -> list[Any]:
    """The stages of the PrimFuncs whose name starts so."""
    return [stages(f)[-1] for g, f in sorted(mod.functions_items(), key=lambda p: p[0].name_hint)
            if isinstance(f, tirx.PrimFunc) and g.name_hint.startswith(name)]  # fmt: skip


def innermost(s: Any) -> Any:
    """The iterator of the innermost loop that is in no tile."""
    whole = [v for v, div in s.order if div == 1 and [w for w, _ in s.order].count(v) == 1]
    return next(v for v in reversed(whole) if v.kind != "reduce" and v.extent.const != 1)


def test_convolutions_and_matmul_run_over_the_output_channel() -> None:
    mod = nets.net(images, IMAGE)
    planned = plan_layout(mod, "tvm-nhwc")
    assert len(planned.report.conversions) == 1 and planned.report.status == "optimal"
    convs = loops(planned.module, "conv2d")
    assert len(convs) == 3
    for s in (*convs, *loops(planned.module, "matmul")):
        (w,) = s.writes
        assert w.indices[-1].atom is innermost(s), s.order
    check_same(mod, planned.module, IMAGE)
    again = plan_layout(planned.module, "tvm-nhwc")
    assert not again.report.conversions
    check_same(mod, again.module, IMAGE)


def test_where_it_does_not_pay_the_given_form_stays() -> None:
    for build, shape in ((grouped, (1, 16, 8, 8)), (tiny, (1, 16, 16, 16))):
        mod = nets.net(build, shape)
        planned = plan_layout(mod, "tvm-nhwc")
        assert not planned.report.moved() and not planned.report.conversions
        check_same(mod, planned.module, shape)


def wide(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    return emit(relax.op.nn.conv2d(x, nets.const(rng, 32, 8, 3, 3), padding=1, groups=2))


def test_groups_are_outside_of_the_loop_over_their_channels() -> None:
    mod = nets.net(wide, (1, 16, 8, 8))
    planned = plan_layout(mod, "tvm-nhwc")
    assert len(planned.report.conversions) == 2  # in and out
    (s,) = loops(planned.module, "conv2d")
    channel = s.writes[0].indices[-1].atom
    assert [div for v, div in s.order if v is channel] == [16, 1]
    places = [k for k, (v, _) in enumerate(s.order) if v is channel]
    sums = [k for k, (v, _) in enumerate(s.order) if v.kind == "reduce"]
    assert places[0] < min(sums) and any(k < places[1] for k in sums)
    check_same(mod, planned.module, (1, 16, 8, 8))


def test_an_implementation_of_one_operator() -> None:
    mod = nets.net(images, IMAGE)
    planned = plan_layout(mod, {"matmul": "tvm-nhwc"})
    assert not planned.report.moved()
    (before,), (after,) = loops(mod, "matmul"), loops(planned.module, "matmul")
    assert before.order[-1][0].kind == "reduce" and innermost(after).extent.const == 10
    check_same(mod, planned.module, IMAGE)


def test_names_that_are_none() -> None:
    mod = nets.net(images, IMAGE)
    with pytest.raises(ValueError, match="unknown implementation 'tvm-nchw'"):
        plan_layout(mod, "tvm-nchw")
    with pytest.raises(ValueError, match="tvm-nhwc has no implementation of relax"):
        plan_layout(mod, {"nn.relu": "tvm-nhwc"})


@pytest.mark.parametrize("extent, width, depth", [(14, 7, 4), (11, 1, 3), (4, 4, 2)])
def test_tiles_divide_and_compute_the_same(extent: int, width: int, depth: int) -> None:
    channels = {4: 12, 3: 9, 2: 10}[depth]
    func = lowered(
        lambda x, w: relax.op.nn.conv2d(x, w, padding=1),
        (1, channels, 3, extent),
        (8, channels, 3, 3),
    )
    layouts = [NHWC, Layout.permuted((2, 3, 1, 0)), NHWC]
    found = rewrite(func, layouts, "tiled")
    assert not isinstance(found, Refusal)
    tiles = [div for _, div in stages(found.func)[-1].order if div > 1]
    assert tiles == [d for d in (width if width < extent else 1, depth) if d > 1]
    assert max(tiles) <= max(WIDTH, DEPTH)
    oracle.check(func, found.func, layouts)
