"""Image and quantisation operators written by hand: other loops, stages and operand orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import tvm
from tvm import te, tirx

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.effects.tensor_expression import TensorExpression
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.recognise.vision.grid import nearest
from opinfo.analysis.recognise.vision.resize import resize

QUANTIZE = """
@T.prim_func(s_tir=True)
def main(z: T.Buffer((6,), "uint8"), s: T.Buffer((6,), "float32"),
         x: T.Buffer((2, 4, 6), "float32"), out: T.Buffer((2, 4, 6), "uint8")):
    q = T.alloc_buffer((2, 4, 6), "float32")
    for c, r in T.grid(6, 8):
        q[r // 4, r % 4, c] = T.round(x[r // 4, r % 4, c] / s[c])
    for r in range(48):
        out[r // 24, r // 6 % 4, r % 6] = T.Cast("uint8", T.min(T.float32(255), T.max(
            T.Cast("float32", z[r % 6]) + q[r // 24, r // 6 % 4, r % 6], T.float32(0))))
"""
DEQUANTIZE = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((T.int32(5), T.int32(6)), "int8"), out: T.Buffer((5, 6), "float32")):
    for r in range(30):
        out[r // 6, r % 6] = T.float32(0.5) * T.Cast(
            "float32", T.Cast("int32", x[r // 6, r % 6]) - 3)
"""
AFFINE = """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((2, 2, 3), "float32"), out: T.Buffer((2, 2, 4, 2), "float32")):
    for j, i, k, n in T.grid(2, 4, 2, 2):
        out[n, k, i, j] = (a[n, k, 2] + (T.float32(-0.75) + T.float32(0.5) * T.Cast("float32", i))
            * a[n, k, 1]) + a[n, k, 0] * (T.Cast("float32", j) + T.float32(-0.5))
"""

# every gradient is pushed to the four elements of its window
SPREAD = """
@T.prim_func(s_tir=True)
def main(g: T.Buffer((1, 2, 3, 3), "float32"), x: T.Buffer((1, 2, 6, 6), "float32"),
         out: T.Buffer((1, 2, 6, 6), "float32")):
    for c, i, j, a, b in T.grid(2, 3, 3, 2, 2):
        out[0, c, i * 2 + a, j * 2 + b] = g[0, c, i, j] / T.float32(4)
"""
TRANSPOSED = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 3, 4, 4, 4), "float32"), w: T.Buffer((3, 5, 3, 1, 2), "float32"),
         out: T.Buffer((1, 5, 7, 4, 5), "float32")):
    for o, i, j, k, c, a, b in T.grid(5, 7, 4, 5, 3, 3, 2):
        with T.sblock("conv"):
            vo, vi, vj, vk, vc, va, vb = T.axis.remap("SSSSRRR", [o, i, j, k, c, a, b])
            with T.init():
                out[0, vo, vi, vj, vk] = T.float32(0)
            out[0, vo, vi, vj, vk] += w[vc, vo, va, 0, vb] * T.if_then_else(
                (vi + 1 - va) % 2 == 0 and va <= vi + 1 and vi + 1 - va < 8
                and vb <= vk and vk - vb < 4,
                x[0, vc, (vi + 1 - va) // 2, vj, vk - vb], T.float32(0))
"""

CASES: Mapping[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "quantize": (QUANTIZE, "relax.quantize", (2, 1, 0), {"axis": 2, "out_dtype": "uint8"}),
    "dequantize": (DEQUANTIZE, "relax.dequantize", (0, 0.5, 3), {"axis": -1}),
    "affine_grid": (
        AFFINE, "relax.image.affine_grid", (0,), {"size": (4, 2), "align_corners": False},
    ),
    "avg_pool2d_backward": (
        SPREAD, "relax.grad.avg_pool2d_backward", (0, 1),
        {"pool_size": (2, 2), "strides": (2, 2), "padding": (0, 0, 0, 0), "layout": "NCHW"},
    ),
    "conv3d_transpose": (
        TRANSPOSED, "relax.nn.conv3d_transpose", (0, 1),
        {"strides": (2, 1, 1), "padding": (1, 0, 0, 1, 0, 0), "output_padding": (0, 0, 0)},
    ),
    "grid_sample": (
        nearest(), "relax.image.grid_sample", (0, 1),
        {"method": "nearest", "padding_mode": "zeros", "align_corners": True, "layout": "NCHW"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_written_by_hand(case: str) -> None:
    script, name, operands, attrs = CASES[case]
    info = op_info(tvm.script.from_source(script))
    assert isinstance(info, OpInfo) and info.name == name, info
    assert tuple(getattr(o, "value", o) for o in info.operands) == operands
    assert {k: info.attrs[k] for k in attrs} == attrs
    assert info.certificate.kind == "proved" and not info.relaid


def test_no_sampling_is_compared_with_a_rotary_embedding() -> None:
    """Its loads and casts fit about a hundred of them, each a second of CPU time."""
    x = te.placeholder((1, 5, 4, 16), "float32")

    def element(b: Any, s: Any, h: Any, d: Any) -> Any:
        angle = tirx.Cast("float32", s) / tirx.power(tirx.const(1e4, "float32"), d // 8)
        return tirx.cos(angle) * x[b, s, h, d] + x[b, s, h, (d + 8) % 16]

    lifted = lift(te.create_prim_func([x, te.compute(x.shape, element)]))
    assert isinstance(lifted, TensorExpression)
    assert resize(lifted) == Refusal("a function is computed that no resize has")
