"""What later passes find after planning: as few calls when fused, every operator when raised."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.layout import layout_fusion, layout_graph

from .. import nets

IMAGE = (1, 3, 8, 8)


@pytest.mark.parametrize("build", [nets.residual, nets.excited])
def test_no_more_calls_after_fusion_than_of_a_native_module(build: Any) -> None:
    found = layout_fusion.row("net", nets.net(build, IMAGE, legal=False))
    assert isinstance(found.native, int) and found.given > 1
    assert found.planned["NHWC"] <= found.native
    assert found.planned["tvm-nhwc"] <= found.native
    assert found.planned["NCHW8c"] <= found.native


@pytest.mark.parametrize("build, shape", [(nets.residual, IMAGE), (nets.flat, IMAGE),
                                          (nets.attention, (2, 5, 8))])  # fmt: skip
def test_no_operator_is_lost_in_graph_mode(build: Any, shape: tuple[int, ...]) -> None:
    found = layout_graph.row("net", nets.net(build, shape, legal=False))
    assert found.before.ops.total() and not found.lost


def test_raised_operators_have_the_new_layouts_and_axes() -> None:
    found = layout_graph.row("net", nets.net(nets.residual, IMAGE, legal=False))
    nhwc = "nn.conv2d data_layout=NHWC kernel_layout=OHWI"
    assert found.before.laid[nhwc] == 0 and found.after.laid[nhwc] == 2
    assert found.after.laid["nn.max_pool2d layout=NHWC"] == 1
    assert found.before.laid["mean axis=(2, 3)"] == found.after.laid["mean axis=(1, 2)"] == 1
