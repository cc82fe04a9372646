"""Transposed convolutions of one, two and three spatial dimensions.

    out[n, o, y] = Σ_{c, k} x[n, c, (y + p - d*k) / s] * w[c, o, k]

where the division is exact and the read inside x; otherwise the term is 0. With groups, o and c
belong to the same group. The taps of a dilated kernel may run from 0 to ``d*(K-1)``, with 0 between
those of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.quotient import is_div
from ...terms.term import ONE, CallTerm, Int, Load, TensorVar, Var, as_int
from .._forms.access_functions import ratio
from .._forms.sums_of_products import Product, affine, product
from .conv import SPATIAL

MATCHES = [
    Matches(
        "relax.nn.conv2d_transpose",
        ("float32[1, 4, 9, 9]", "float32[4, 5, 3, 3]"),
        {"strides": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)},
    ),
    Matches(
        "relax.nn.conv2d_transpose",
        ("float32[n, 4, 7, 9]", "float32[4, 5, 3, 2]"),
        {"strides": (3, 2), "groups": 2},
    ),
    Matches("relax.nn.conv2d_transpose", ("float32[1, 4, 9, 9]", "float32[4, 5, 3, 3]")),
    Matches(
        "relax.nn.conv1d_transpose", ("float32[n, c, w]", "float32[c, o, k]"), {"strides": (2,)}
    ),
    Matches(
        "relax.nn.conv2d_transpose",
        ("int8[1, 4, 9, 9]", "int8[4, 5, 3, 3]"),
        {"dilation": (2, 3), "padding": (1, 0, 1, 0), "out_dtype": "int32"},
    ),
    Matches(
        "relax.nn.conv3d_transpose",
        ("float16[1, 4, 5, 6, 7]", "float16[4, 3, 2, 3, 2]"),
        {"strides": (2, 1, 3), "padding": (1, 0, 1, 1, 0, 1), "output_padding": (1, 0, 2)},
    ),
    Matches(
        "relax.nn.conv3d_transpose",
        ("float32[n, 4, 5, 6, 7]", "float32[4, 3, 2, 3, 2]"),
        {"groups": 2, "dilation": (1, 2, 1)},
    ),
    Matches(
        "relax.nn.conv1d_transpose",
        ("float32[1, 4, 9]", "float32[4, 5, 3]"),
        {"strides": (2,), "padding": (1, 0)},
        expect={"padding": (1, 1), "output_padding": (1,)},
    ),
]

REFUSES = [
    Refuses(
        "the kernel is not flipped",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 4, 6, 6), "float32"), w: T.Buffer((4, 4, 3, 3), "float32"),
         out: T.Buffer((1, 4, 8, 8), "float32")):
    for n, o, i, j, c, a, b in T.grid(1, 4, 8, 8, 4, 3, 3):
        with T.sblock("c"):
            vn, vo, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, o, i, j, c, a, b])
            with T.init():
                out[vn, vo, vi, vj] = T.float32(0)
            out[vn, vo, vi, vj] += T.if_then_else(
                2 <= vi + va and vi + va < 8 and 2 <= vj + vb and vj + vb < 8,
                x[vn, vc, vi + va - 2, vj + vb - 2], T.float32(0)) * w[vc, vo, va, vb]
""",
    ),
]


@recogniser(
    "conv_transpose",
    precedence=610,
    ops=tuple(f"relax.nn.conv{d}d_transpose" for d in (1, 2, 3)),
)
def conv_transpose(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the sum of products; stride, padding and flip come from the accesses."""
    contraction = product(expression.outputs[0].body) if len(expression.outputs) == 1 else None
    if contraction is None or len(contraction.loads) != 2:
        return Refusal("the compute is not a sum of products of two operands")
    rank = len(expression.outputs[0].axes)
    if rank not in SPATIAL or any(len(data.indices) != rank for data in contraction.loads):
        return Refusal(
            "the operands and output of a transposed convolution have the same rank, from 3 to 5"
        )
    out = [
        proposal
        for data, kernel in (contraction.loads, contraction.loads[::-1])
        for proposal in _proposals(expression, contraction, data, kernel)
    ]
    return out or Refusal("the accesses do not match a transposed convolution")


def _proposals(
    expression: TensorExpression, contraction: Product, data: Load, kernel: Load
) -> Iterator[Proposal]:
    out = expression.outputs[0].out
    spatial = [
        _dimension(data, kernel, d, expression.outputs[0].axes[d], contraction.reduce.axes)
        for d in range(2, len(out.shape))
    ]
    groups = ratio(out.shape[1], kernel.tensor.shape[1])
    if groups is None or any(s is None for s in spatial):
        return
    dimensions = tuple(s for s in spatial if s is not None)
    strides, before, dilations = zip(*dimensions, strict=True)
    ends = _ends(out, data, kernel, dimensions)
    if ends is None:
        return
    behind, extra, loose = ends
    letters = SPATIAL[len(out.shape)]
    layout, kernel_layout = f"NC{letters}", f"IO{letters}"
    attrs = {
        "strides": strides,
        "padding": (*before, *behind),
        "output_padding": extra,
        "dilation": dilations,
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": kernel_layout,
        "out_layout": layout,
    }
    if out.dtype != data.tensor.dtype:
        attrs["out_dtype"] = out.dtype
    yield Proposal(
        f"relax.nn.conv{len(out.shape) - 2}d_transpose",
        (data.tensor.position, kernel.tensor.position),
        attrs,
        layouts={
            data.tensor.position: layout,
            kernel.tensor.position: kernel_layout,
            out.position: layout,
        },
        undetermined=loose,
    )


def _ends(
    out: TensorVar, data: Load, kernel: Load, dimensions: Sequence[tuple[int, int, int]]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Undetermined, ...]] | None:
    """Trailing and output padding of each dimension, and the attributes that are not determined.

    ``dimensions`` are stride, leading padding and dilation. None if an extent of the output fits no
    padding.
    """
    behind, extra = [], []
    loose: list[Undetermined] = []
    for d, (stride, pad, dilation) in enumerate(dimensions, start=2):
        taps = kernel.tensor.shape[d]
        grown = _grown(data.tensor.shape[d], out.shape[d], stride, pad, dilation, taps)
        if grown is None:
            return None
        behind.append(grown[0])
        extra.append(grown[1])
        if taps is ONE:
            loose.append(Undetermined("dilation", "the kernel extent is 1", d - 2, low=1))
        loose += _traded(d - 2, len(dimensions), grown, stride)
    return tuple(behind), tuple(extra), tuple(loose)


def _dimension(
    data: Load, kernel: Load, d: int, coordinate: Int, axes: tuple[Var, ...]
) -> tuple[int, int, int] | None:
    """``(stride, leading padding, dilation)`` of one dimension.

    With the kernel read at r the data is read at ``(y - d*r + p) / s``, with the kernel read at
    ``K - 1 - r`` at ``(y + d*r - (d*(K-1) - p)) / s``.
    """
    taps = kernel.tensor.shape[d].const
    inner, stride = _quotient(data.indices[d])
    if taps is None:
        return _symbolic(inner, stride, kernel, d, coordinate)
    form = affine(inner)
    if form is None:
        return None
    coefs = {v: c for v, c in form[0].items() if as_int(v) is not coordinate}
    if coordinate.const is None and (
        len(coefs) == len(form[0]) or form[0][_variable(coordinate)] != 1
    ):
        return None
    if len(coefs) > 1:
        return None
    dilation = 1
    if coefs:
        ((tap, dilation),) = coefs.items()
        if tap not in axes or tap.extent is None:
            return None
        if dilation < 0 and kernel.indices[d] is as_int(tap):
            return stride, form[1], -dilation
        span = tap.extent.const
        if taps > 1 and dilation == 1 and span is not None and (span - 1) % (taps - 1) == 0:
            dilation = (span - 1) // (taps - 1)
        elif kernel.indices[d] is not -as_int(tap) + (taps - 1):
            return None
    elif kernel.indices[d].const is None:
        return None
    return stride, form[1] + dilation * (taps - 1), dilation


def _symbolic(
    inner: Int, stride: int, kernel: Load, d: int, coordinate: Int
) -> tuple[int, int, int] | None:
    """The same for a kernel of symbolic extent K, read at ``K - 1 - r``, without dilation."""
    before = (inner - coordinate + kernel.indices[d]).const
    return None if before is None else (stride, before, 1)


def _traded(d: int, rank: int, grown: tuple[int, int], stride: int) -> list[Undetermined]:
    """The note that trailing padding may take away what output padding adds, if it may."""
    behind, extra = grown
    low, high = max(0, extra - behind), stride - 1
    why = "trailing padding takes away what output padding adds"
    partner = ("padding", rank + d)
    return [Undetermined("output_padding", why, d, low, high, (), partner)] if low < high else []


def _variable(poly: Int) -> Var:
    assert isinstance(poly.atom, Var)
    return poly.atom


def _quotient(index: Int) -> tuple[Int, int]:
    """``index = inner // stride`` as ``(inner, stride)``; terms beside it move into inner."""
    divisions = [m[0] for m, c in index.terms if len(m) == 1 and c == 1 and is_div(m[0])]
    if len(divisions) != 1 or not isinstance(divisions[0], CallTerm):
        return index, 1
    num, den = divisions[0].args
    if not isinstance(den, Int) or den.const is None:
        return index, 1
    return as_int(num) + (index - as_int(divisions[0])) * den.const, den.const


def _grown(
    size: Int, out: Int, stride: int, before: int, dilation: int, taps: Int
) -> tuple[int, int] | None:
    """``(trailing padding, output padding)`` of ``out = (size-1)*s + d*(K-1) + 1 - p + extra``."""
    difference = out - ((size - 1) * stride + (taps - 1) * dilation + 1)
    shortfall = difference.const
    if shortfall is None or before < 0:
        return None
    behind = -shortfall - before
    if behind >= before:
        return behind, 0
    if before - behind < stride:
        return before, before - behind
    return (behind, 0) if behind >= 0 else (0, -behind)
