"""The pattern kind comes from the definition: what fusion may do with the compute."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax

from opinfo.analysis import lift
from opinfo.analysis.answer.kind import pattern_kind

from ...common.mutation import legalised

OPS = relax.op
KINDS: list[tuple[str, Any, tuple[tuple[int, ...], ...]]] = [
    ("kElemWise", lambda x: OPS.exp(x), ((2, 3),)),
    ("kElemWise", OPS.add, ((2, 3), (2, 3))),
    ("kElemWise", lambda x: OPS.add(x, relax.const(1.0)), ((2, 3),)),
    ("kBroadcast", OPS.add, ((2, 3), (3,))),
    ("kBroadcast", lambda x: OPS.broadcast_to(x, (4, 2, 3)), ((2, 3),)),
    ("kInjective", lambda x: OPS.permute_dims(x), ((2, 3),)),
    ("kInjective", lambda x: OPS.reshape(x, (3, 2)), ((2, 3),)),
    ("kInjective", lambda x, y: OPS.concat([x, y], 0), ((2, 3), (2, 3))),
    ("kInjective", lambda x, y: OPS.stack([x, y], 0), ((2, 3), (2, 3))),
    ("kInjective", lambda x: OPS.strided_slice(x, [0], [0], [1]), ((2, 3),)),
    ("kInjective", lambda x: OPS.nn.pad(x, [0, 0, 1, 1]), ((2, 3),)),
    ("kCommReduce", lambda x: OPS.sum(x, axis=1), ((2, 3),)),
    ("kCommReduce", lambda x: OPS.nn.max_pool2d(x, (2, 2)), ((1, 2, 4, 4),)),
    ("kOutEWiseFusable", OPS.matmul, ((2, 3), (3, 4))),
    ("kOutEWiseFusable", OPS.nn.conv2d, ((1, 2, 4, 4), (3, 2, 3, 3))),
    ("kOpaque", lambda x: OPS.nn.softmax(x), ((2, 3),)),
    ("kOpaque", lambda x: OPS.cumsum(x, 1), ((2, 3),)),
]


@pytest.mark.parametrize(("kind", "build", "shapes"), KINDS, ids=range(len(KINDS)))
def test_the_fusion_kind_is_that_of_the_operator(
    kind: str, build: Any, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert pattern_kind(lift(legalised(build, shapes))) == kind
