"""Preparation for backends: operators that do nothing are dropped."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.byoc.matching.lowered import read
from opinfo.byoc.prepare.prepare import prepare

from ...layout import nets

op = relax.op
N = tvm.tirx.Var("n", "int64")


@pytest.mark.parametrize(("shape", "to", "ops"), [
    ((4, 6), (4, 6), ["relax.exp"]),
    ((N, 6), (N, 6), ["relax.exp"]),
    ((1, 6), (4, 6), ["relax.broadcast_to", "relax.exp"]),
    ((6,), (1, 6), ["relax.broadcast_to", "relax.exp"]),
])  # fmt: skip
def test_a_broadcast_to_the_same_shape_is_dropped(
    shape: tuple[Any, ...], to: tuple[Any, ...], ops: list[str]
) -> None:
    mod = nets.net(lambda e, r, x: e(op.exp(e(op.broadcast_to(x, to)))), shape, legal=False)
    lowered = read(prepare(mod), "test")
    assert len(lowered.ops) == len(ops)
    assert lowered.name_of(lowered.ops[-1]) == "relax.exp"
