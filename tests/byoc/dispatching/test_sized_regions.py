"""Regions with numbers for symbolic extents."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx

from opinfo.byoc.backend.region import Call, Region, Tensor
from opinfo.byoc.backend.sized_region import sized
from opinfo.layout.model.buffer_bytes import SYMBOLIC

N = tirx.Var("n", "int64")


def _region(extent: Any, axes: Any) -> Region:
    x, y = Tensor("input", 0, (extent, 4), "float32"), Tensor("call", 0, (extent, 4), "float32")
    call = Call("relax.nn.softmax", {"axes": axes, "scale": None, "layout": "NC"}, (x,), y)
    return Region("s", (call,), (x,), (), (y,))


def test_a_call_without_symbols_is_kept() -> None:
    region = _region(3, [1, (2, 3)])
    assert sized(region).calls[0] is region.calls[0]


@pytest.mark.parametrize(
    ("extent", "axes", "shape", "expected"),
    [
        (N, [1], (SYMBOLIC, 4), [1]),
        (N // 320 - 1, [1], (1, 4), [1]),  # at least an element
        (3, N, (3, 4), SYMBOLIC),
        (3, [1, [N + 1]], (3, 4), [1, [SYMBOLIC + 1]]),
        (3, tvm.tirx.IntImm("int64", 7), (3, 4), 7),
    ],
)
def test_symbols_become_numbers(extent: Any, axes: Any, shape: Any, expected: Any) -> None:
    out = sized(_region(extent, axes))
    (call,) = out.calls
    assert call.operands[0].shape == call.result.shape == shape  # type: ignore[union-attr]
    assert out.inputs[0].shape == out.result.shape == shape
    assert call.attrs == {"axes": expected, "scale": None, "layout": "NC"}
