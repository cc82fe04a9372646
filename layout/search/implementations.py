"""Implementations that the planner itself has, by name, and what they save.

`tvm-nhwc` is plain TIR whose innermost loop runs over the output channel, contiguous in all that it
accesses, so that LLVM keeps it in vector registers; reductions are outside of it:

    for n, h, w, y, x, r, c:  out[n, h, w, c] += pad[n, h + y, w + x, r] * w[y, x, r, c]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ...analysis.blocks.blocks import Opaque, stages
from ..model.buffer_bytes import SYMBOLIC


@dataclass(frozen=True)
class Named:
    """Layouts by full op name; those without strings keep their output's last axis innermost.

    ``saved`` is what an iteration of the reduction costs less than in the given form, as bytes that
    a conversion moves in the same time: measured on TVM's default CPU build, 2.5 ns an iteration of
    the given convolution, 0.2 ns of this one, and about 1 ns a byte of a conversion.
    """

    name: str
    layouts: Mapping[str, tuple[str, ...]]
    saved: float


TVM_NHWC = Named(
    "tvm-nhwc",
    {
        "relax.nn.conv1d": ("NWC", "WIO"),
        "relax.nn.conv2d": ("NHWC", "HWIO"),
        "relax.nn.conv3d": ("NDHWC", "DHWIO"),
        "relax.nn.conv1d_transpose": ("NWC", "WIO"),
        "relax.nn.conv2d_transpose": ("NHWC", "HWIO"),
        "relax.nn.conv3d_transpose": ("NDHWC", "DHWIO"),
        "relax.matmul": (),
    },
    2.3,
)

IMPLEMENTATIONS = {n.name: n for n in (TVM_NHWC,)}


def named(name: str) -> Named:
    """Raises ``ValueError`` for a name that is none."""
    if name not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"desired: no implementation is called {name!r}; there is {known}")
    return IMPLEMENTATIONS[name]


def iterations(func: Any) -> int:
    """Of the reductions of a PrimFunc; a symbolic extent counts 64."""
    try:
        found = stages(func)
    except Opaque:
        return 0
    return sum(prod(_extent(v) for v in s.axes) for s in found if s.reduced)


def _extent(v: Any) -> int:
    known = v.extent.const if v.extent is not None else None
    return SYMBOLIC if known is None else int(known)
