"""The planner's named implementations, and what they save.

`tvm-nhwc` is plain TIR whose innermost loop runs over the output channel. All accesses are
contiguous in it, so LLVM keeps it in vector registers; reductions are outside it:

    for n, h, w, y, x, r, c:  out[n, h, w, c] += pad[n, h + y, w + x, r] * w[y, x, r, c]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ...analysis.blocks.block_terms import Opaque
from ...analysis.blocks.blocks import stages
from ...analysis.support.wording import did_you_mean
from ..model.buffer_bytes import SYMBOLIC


@dataclass(frozen=True)
class NamedImplementation:
    """A named implementation of some operators.

    Attributes:
        name: Its name.
        layouts: The layout strings by full operator name; without any, the output's last axis
            is innermost.
        saved: The bytes of a conversion that take as long as one iteration of the reduction saves.
            Measured on TVM's default CPU build: 2.5 ns for an iteration of the unchanged
            convolution, 0.2 ns for this one, and about 1 ns for a byte of a conversion.
    """

    name: str
    layouts: Mapping[str, tuple[str, ...]]
    saved: float


TVM_NHWC = NamedImplementation(
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


def named_implementation(name: str) -> NamedImplementation:
    """The implementation with a name. Raises ``ValueError`` if the name is unknown."""
    if name not in IMPLEMENTATIONS:
        names = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"requested layouts: unknown implementation {name!r}; known: {names}"
                         f"{did_you_mean(name, IMPLEMENTATIONS)}")  # fmt: skip
    return IMPLEMENTATIONS[name]


def iterations(func: Any) -> int:
    """The iterations of the reductions of a PrimFunc; a symbolic extent counts as 64."""
    try:
        blocks = stages(func)
    except Opaque:
        return 0
    return sum(prod(_extent(v) for v in s.axes) for s in blocks if s.reduced)


def _extent(var: Any) -> int:
    extent = var.extent.const if var.extent is not None else None
    return SYMBOLIC if extent is None else int(extent)
