"""Regions of oneDNN, and the equivalent forms that they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax

from opinfo.byoc.codegen.host_target import flags

from ...layout.nets import const

nn, op = relax.op.nn, relax.op
LAST = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
#: The form that products of many rows have with AVX2 alone.
TILED = " tiled" if "avx" in flags() and "avx512f" not in flags() else ""


@dataclass(frozen=True)
class Formed:
    """One region over one input, and the forms that it has."""

    shape: tuple[int, ...]
    build: Callable[..., Any]
    forms: str


def conv(x: tuple[int, ...], w: tuple[int, ...], forms: str, **attrs: Any) -> Formed:
    def build(e: Any, r: Any, v: Any) -> Any:
        y = e(nn.conv2d(v, const(r, *w), **LAST, **attrs))
        y = e(nn.relu(e(op.add(y, const(r, w[0])))))
        return e(op.multiply(y, const(r, 1, 1, 1, w[0])))

    return Formed(x, build, forms)


def _line(x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> Formed:
    def build(e: Any, r: Any, v: Any) -> Any:
        y = e(nn.conv1d(v, const(r, *w), data_layout="NWC", kernel_layout="OWI", **attrs))
        y = e(nn.relu(e(op.add(y, const(r, w[0])))))
        return e(op.multiply(y, const(r, 1, 1, w[0])))

    return Formed(x, build, "straight swapped packed")


CASES = {
    "narrow": conv((2, 30, 1, 8), (16, 5, 1, 8), "straight swapped packed", padding=(2, 0),
                    strides=(2, 1)),
    "windows of one pixel": conv((1, 6, 5, 8), (16, 1, 1, 8),
                                  "straight swapped rows layer packed"),
    "dilated": conv((1, 12, 9, 8), (16, 3, 2, 8), "straight swapped packed", dilation=(2, 1),
                     padding=(1, 0, 2, 1)),
    "depthwise": conv((1, 9, 7, 16), (16, 3, 3, 1), "straight swapped packed", groups=16,
                       padding=1),
    "a line": _line((2, 30, 8), (16, 5, 8), padding=(2, 1), strides=2),
    "a dilated line, depthwise": _line((1, 40, 16), (16, 9, 1), padding=(8, 4), dilation=2,
                                       groups=16),
    "a transposed line": Formed((2, 8, 9), lambda e, r, x: e(nn.relu(e(nn.conv1d_transpose(
        x, const(r, 8, 6, 4), strides=2, padding=(1, 2), output_padding=1)))), "straight swapped"),
    "one channel": conv((1, 9, 7, 16), (1, 3, 3, 16), "straight swapped packed", padding=1),
    "product": Formed((3, 5, 6), lambda e, r, x: e(nn.gelu(e(op.add(e(op.matmul(
        x, const(r, 6, 32))), const(r, 32))))), "straight layer unpacked turned padded" + TILED),
    "blocks of rows": Formed((151, 1100), lambda e, r, x: e(op.multiply(e(nn.relu(e(op.add(e(
        op.matmul(x, const(r, 1100, 43))), const(r, 43))))), const(r, 151, 43))),
        "straight layer unpacked turned padded" + TILED),
    "strips of three and four rows": Formed((7, 9), lambda e, r, x: e(nn.relu(e(op.matmul(
        x, const(r, 9, 20))))), "straight layer unpacked turned padded" + TILED),
    "a row": Formed((1, 70), lambda e, r, x: e(op.multiply(e(nn.relu(e(op.add(e(op.matmul(
        x, const(r, 70, 150))), const(r, 150))))), const(r, 1, 150))),
        "straight layer unpacked turned padded streamed"),
    "few rows": Formed((3, 1100), lambda e, r, x: e(nn.relu(e(op.matmul(x, const(r, 1100, 64))))),
                       "straight layer unpacked turned padded streamed"),
    "softmax": Formed((2, 70, 3, 5), lambda e, r, x: e(op.multiply(
        e(nn.softmax(x, 1)), const(r, 2, 70, 3, 5))), "straight moved"),
}  # fmt: skip
