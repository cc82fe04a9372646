"""Convolutions of one, two and three spatial dimensions.

    out[n, o, y] = Σ_{c, k} x[n, g(o)*C + c, s*y + d*k - p] * w[o, c, k]

with ``g(o) = o // (O / groups)``, in any order of the dimensions of data, kernel and output; reads
outside of x are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.order import is_closed
from ...terms.term import Int, Load, Var
from ...terms.traversal import free
from .._forms.access_functions import ratio
from .._forms.sums_of_products import Product, only, product
from ._window import Fitted, WindowAxis, as_coordinate, fit, undetermined, window

SPATIAL = {3: "W", 4: "HW", 5: "DHW"}
DATA = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}
KERNEL = {
    3: ("OIW", "WIO", "OWI"),
    4: ("OIHW", "HWIO", "OHWI"),
    5: ("OIDHW", "DHWIO", "ODHWI"),
}

MATCHES = [
    Matches(
        "relax.nn.conv2d",
        ("float32[1, 3, 16, 16]", "float32[8, 3, 3, 3]"),
        {"strides": (2, 2), "padding": (1, 1, 1, 1)},
    ),
    Matches(
        "relax.nn.conv2d",
        ("float32[2, 8, 9, 10]", "float32[12, 4, 3, 2]"),
        {"strides": (1, 2), "padding": (0, 1, 2, 0), "dilation": (2, 1), "groups": 2},
    ),
    Matches(
        "relax.nn.conv2d",
        ("float32[n, 9, 10, 8]", "float32[3, 3, 1, 8]"),
        {"padding": (1, 1, 1, 1), "groups": 8, "data_layout": "NHWC", "kernel_layout": "HWIO"},
    ),
    Matches("relax.nn.conv1d", ("float16[2, 4, 12]", "float16[6, 4, 3]"), {"padding": (1, 1)}),
    Matches(
        "relax.nn.conv3d",
        ("float32[1, 4, 6, 7, 8]", "float32[5, 4, 3, 2, 2]"),
        {"strides": (2, 1, 1), "padding": (1, 1, 0, 0, 1, 1)},
        expect={"padding": (1, 1, 0, 1, 1, 1)},  # the stride of the window is undetermined
    ),
    Matches("relax.nn.conv1d", ("float32[n, c, w]", "float32[o, c, k]"), {"padding": (1, 1)}),
    Matches(
        "relax.nn.conv2d",
        ("float32[n, c, h, w]", "float32[o, c, k, l]"),
        {"strides": (2, 1), "padding": (1, 0, 1, 0), "dilation": (2, 2)},
    ),
    Matches(
        "relax.nn.conv2d",
        ("int8[1, 8, 6, 6]", "int8[4, 8, 1, 1]"),
        {"out_dtype": "int32"},
    ),
]

REFUSES = [
    Refuses(
        "the kernel is flipped",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 4, 8, 8), "float32"), w: T.Buffer((4, 4, 3, 3), "float32"),
         out: T.Buffer((1, 4, 6, 6), "float32")):
    for n, o, i, j, c, a, b in T.grid(1, 4, 6, 6, 4, 3, 3):
        with T.sblock("c"):
            vn, vo, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, o, i, j, c, a, b])
            with T.init():
                out[vn, vo, vi, vj] = T.float32(0)
            out[vn, vo, vi, vj] += x[vn, vc, vi + va, vj + vb] * w[vo, vc, 2 - va, 2 - vb]
""",
    ),
]


@recogniser("conv", precedence=600, ops=("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d"))
def conv(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the sum of products, try which load is the data, enumerate consistent layouts."""
    if len(expression.outputs) != 1:
        return Refusal("a convolution has one output")
    contraction = product(expression.outputs[0].body)
    if contraction is None or len(contraction.loads) != 2:
        return Refusal("the compute is not a sum of products of two operands")
    rank = len(expression.outputs[0].axes)
    if rank not in SPATIAL or any(len(x.indices) != rank for x in contraction.loads):
        return Refusal("the operands and output of a convolution have the same rank, from 3 to 5")
    out: list[Proposal] = []
    for data, kernel in (contraction.loads, contraction.loads[::-1]):
        out.extend(_Conv(expression, contraction, data, kernel).proposals())
    if not out:
        return Refusal("the accesses do not match a convolution", repr(contraction.loads))
    return out[:4]


@dataclass(frozen=True)
class _Conv:
    """A candidate convolution: its spatial dimensions, taps and windows."""

    expression: TensorExpression
    contraction: Product
    data: Load
    kernel: Load

    def proposals(self) -> Iterator[Proposal]:
        """One proposal for each consistent assignment of layouts, common ones first."""
        for kernel_layout in _orders(KERNEL[self.rank]):
            taps = self.taps(kernel_layout)
            if taps is None:
                continue
            for data_layout in _orders(DATA[self.rank]):
                windows = self.windows(data_layout, taps)
                if windows is None:
                    continue
                proposal = self.proposal(data_layout, kernel_layout, windows)
                if proposal is not None:
                    yield proposal
                    return

    @property
    def rank(self) -> int:
        return len(self.data.indices)

    @property
    def outs(self) -> frozenset[Var]:
        return frozenset(
            var for a in self.expression.outputs[0].axes if (var := only(a)) is not None
        )

    def taps(self, layout: str) -> dict[str, Var | None] | None:
        """The reduction axis (None for extent 1) of I and each tap, if the layout fits."""
        taps: dict[str, Var | None] = {}
        for letter, index in zip(layout, self.kernel.indices, strict=True):
            var = only(index)
            if var is None and index.const != 0:
                return None
            if letter == "O":
                if var is not None and var not in self.outs:
                    return None
            elif var is not None and var not in self.contraction.reduce.axes:
                return None
            taps[letter] = var
        used = {v for v in taps.values() if v is not None}
        return taps if used >= set(self.contraction.reduce.axes) else None

    def windows(self, layout: str, taps: dict[str, Var | None]) -> dict[str, WindowAxis] | None:
        """The window of each spatial dimension, if data and output fit the layout."""
        axes = self.expression.outputs[0].axes
        windows: dict[str, WindowAxis] = {}
        for position, letter in enumerate(layout):
            index, out = self.data.indices[position], axes[position]
            if letter == "N":
                matches = index is out
            elif letter == "C":
                matches = out is as_coordinate(taps["O"]) and self.is_channel(index, taps)
            else:
                axis = window(index, self.outs, frozenset(self.contraction.reduce.axes))
                matches = (
                    axis is not None
                    and axis.tap is taps[letter]
                    and as_coordinate(axis.axis) is out
                )
                if axis is not None:
                    windows[letter] = axis
            if not matches:
                return None
        return windows

    def is_channel(self, index: Int, taps: dict[str, Var | None]) -> bool:
        """Match ``c`` or ``group * C + c``, where ``group`` depends only on the output channel."""
        group = index - as_coordinate(taps["I"])
        return all(var is taps["O"] or is_closed(var) for var in free(group))

    def proposal(
        self, data_layout: str, kernel_layout: str, windows: dict[str, WindowAxis]
    ) -> Proposal | None:
        data, kernel, out = self.data.tensor, self.kernel.tensor, self.expression.outputs[0].out
        channel = self.data.indices[data_layout.index("C")]
        per_group = self.kernel.indices[kernel_layout.index("I")]
        groups = ratio(data.shape[data_layout.index("C")], kernel.shape[kernel_layout.index("I")])
        if groups is None and channel is per_group:
            groups = 1  # of two sizes TVM takes the data's
        if not groups:
            return None
        fitted: list[Fitted] = []
        for letter in SPATIAL[self.rank]:
            taps = kernel.shape[kernel_layout.index(letter)]
            place = data_layout.index(letter)
            fitted_axis = fit(windows[letter], data.shape[place], out.shape[place], taps)
            if fitted_axis is None:
                return None
            fitted.append(fitted_axis)
        attrs = {
            "strides": tuple(s.stride for s in fitted),
            "padding": (*(s.before for s in fitted), *(s.after for s in fitted)),
            "dilation": tuple(s.dilation for s in fitted),
            "groups": groups,
            "data_layout": data_layout,
            "kernel_layout": kernel_layout,
            "out_layout": data_layout,
        }
        if out.dtype != data.dtype:
            attrs["out_dtype"] = out.dtype
        return Proposal(
            f"relax.nn.conv{self.rank - 2}d",
            (data.position, kernel.position),
            attrs,
            layouts={
                data.position: data_layout,
                kernel.position: kernel_layout,
                out.position: data_layout,
            },
            undetermined=tuple(undetermined(fitted)),
        )


def _orders(usual: tuple[str, ...]) -> Iterator[str]:
    """The common layouts, then every other order of the same dimensions."""
    yield from usual
    for order in permutations(usual[0]):
        if "".join(order) not in usual:
            yield "".join(order)
