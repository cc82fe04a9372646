"""Sampling of images at coordinates that are data: affine_grid and grid_sample.

    affine_grid:  out[n, k, y] = theta[n, k, d] + Σ_r theta[n, k, d-1-r] * (start_r + step_r * y_r)
    grid_sample:  out[n, c, y] = interpolate(x[n, c], unnormalise(grid[n, :, y]))

over d spatial dimensions. ``align_corners`` shows in the start (-1 with it) or in the offset of
the unnormalised coordinate (-0.5 without it), the method in the number of elements read, and the
padding mode in the treatment of coordinates outside: read as 0, clamped or reflected.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Load, TensorVar, Term
from ...terms.traversal import subterms, tensors
from .._forms.access_functions import dims

AFFINE, SAMPLE = "relax.image.affine_grid", "relax.image.grid_sample"
LAYOUTS = {4: "NCHW", 5: "NCDHW"}


def _sampled(image: str, grid: str, method: str, mode: str, corners: bool) -> Matches:
    layout = LAYOUTS[image.count(",") + 1]
    attrs = {"method": method, "padding_mode": mode, "align_corners": corners, "layout": layout}
    return Matches(SAMPLE, (image, grid), attrs)


MATCHES = [
    Matches(AFFINE, ("float32[n, 2, 3]",), {"size": (4, 5), "align_corners": True}),
    Matches(AFFINE, ("float32[2, 2, 3]",), {"size": (4, 5), "align_corners": False}),
    Matches(AFFINE, ("float16[n, 3, 4]",), {"size": (4, 5, 6), "align_corners": True}),
    Matches(AFFINE, ("float32[n, 3, 4]",), {"size": (3, 1, 2), "align_corners": False}),
    *(
        _sampled("float32[2, 3, 6, 7]", "float32[2, 2, 4, 5]", method, mode, corners)
        for method, corners in (("bilinear", False), ("nearest", True))
        for mode in ("zeros", "border", "reflection")
    ),
    _sampled("float32[n, 3, 6, 7]", "float32[n, 2, 4, m]", "bicubic", "zeros", True),
    _sampled("float32[n, 3, 6, 7]", "float32[n, 2, 4, m]", "bicubic", "border", False),
    _sampled("float32[n, 3, h, w]", "float32[n, 2, 4, 5]", "bilinear", "zeros", True),
    _sampled("float16[n, 3, 6, 7]", "float16[n, 2, 4, 5]", "bilinear", "border", True),
    _sampled("float32[1, 3, 1, 7]", "float32[1, 2, 1, 1]", "nearest", "zeros", False),
    _sampled("float32[2, 3, 4, 6, 7]", "float32[2, 3, 3, 4, 5]", "bilinear", "zeros", False),
    _sampled("float32[2, 3, 4, 6, 7]", "float32[2, 3, 3, 4, 5]", "nearest", "border", True),
]

_NEAREST = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1, 2, 6, 7), "float32"), g: T.Buffer((1, 2, 4, 5), "float32"),
         out: T.Buffer((1, 2, 4, 5), "float32")):
    h = T.alloc_buffer((4, 5), "int64")
    w = T.alloc_buffer((4, 5), "int64")
    for i, j in T.grid(4, 5):
        h[i, j] = T.Cast("int64", T.nearbyint(
            (g[0, {row}, i, j] + T.float32(1)) * T.float32({scales[0]}) / T.float32(2)))
        w[i, j] = T.Cast("int64", T.nearbyint(
            (g[0, {column}, i, j] + T.float32(1)) * T.float32({scales[1]}) / T.float32(2)))
    for c, i, j in T.grid(2, 4, 5):
        out[0, c, i, j] = T.if_then_else(
            0 <= h[i, j] and 0 <= w[i, j] and h[i, j] < 6 and w[i, j] < 7,
            x[0, c, h[i, j], w[i, j]], T.float32({outside}))
"""


def nearest(
    row: int = 1, column: int = 0, scales: tuple[int, int] = (5, 6), outside: int = 0
) -> str:
    """A hand-written grid_sample: nearest, zeros, aligned corners."""
    return _NEAREST.format(row=row, column=column, scales=scales, outside=outside)


REFUSES = [
    Refuses("the grid lists the row first", nearest(row=0, column=1)),
    Refuses("each scale is that of the other coordinate", nearest(scales=(6, 5))),
    Refuses("elements outside read as 1", nearest(outside=1)),
]


@recogniser("affine_grid", precedence=146, ops=(AFFINE,))
def affine_grid(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match matrices read at constant columns, with coordinates derived from the shape."""
    (definition,) = expression.outputs[:1]
    rank = len(definition.axes) - 2
    loads = [s for s in subterms(definition.body) if isinstance(s, Load)]
    if len(expression.outputs) != 1 or rank not in (2, 3) or len(loads) != rank + 1:
        return Refusal("the output is not a grid of two or three coordinates")
    theta = loads[0].tensor
    if any(x.tensor is not theta or x.indices[:-1] != definition.axes[:2] for x in loads):
        return Refusal("the operand is not one matrix for each grid")
    size = dims(definition.out.shape[2:])
    operands = (theta.position,)
    variants = ({"size": size, "align_corners": corners} for corners in (True, False))
    return [Proposal(AFFINE, operands, attrs) for attrs in variants]


@recogniser("grid_sample", precedence=347, ops=(SAMPLE,))
def grid_sample(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a tensor read at indices from another; the operations give the attributes."""
    (definition,) = expression.outputs[:1]
    layout = LAYOUTS.get(len(definition.axes))
    if len(expression.outputs) != 1 or layout is None or len(tensors(definition.body)) != 2:
        return Refusal("the operands are not an image and a grid")
    terms = list(subterms(definition.body))
    reads = [s for s in terms if isinstance(s, Load) and any(tensors(i) for i in s.indices)]
    if not reads or len({x.tensor for x in reads}) != 1:
        return Refusal("no tensor is read at indices from another")
    tensor = reads[0].tensor
    (grid,) = tensors(definition.body) - {tensor}
    if len(tensor.shape) != len(definition.axes) or len(grid.shape) != len(definition.axes):
        return Refusal("image, grid and output differ in rank")
    attrs = {"method": _method(terms, len(reads)), "padding_mode": _padding(terms)}
    return [
        _sample(tensor, grid, definition.out, layout, {**attrs, "align_corners": corners})
        for corners in _corners(terms)
    ]


def _sample(
    tensor: TensorVar, grid: TensorVar, out: TensorVar, layout: str, attrs: dict[str, object]
) -> Proposal:
    layouts = {tensor.position: layout, out.position: layout}
    return Proposal(SAMPLE, (tensor.position, grid.position), {**attrs, "layout": layout}, layouts)


def _method(terms: Sequence[Term], reads: int) -> str:
    if "nearbyint" in _ops(terms):
        return "nearest"
    return "bicubic" if reads > 8 else "bilinear"


def _padding(terms: Sequence[Term]) -> str:
    ops = _ops(terms)
    if "abs" in ops:
        return "reflection"
    return "border" if "min" in ops or "max" in ops else "zeros"


def _corners(terms: Sequence[Term]) -> tuple[bool, ...]:
    """Whether corners are aligned; without it, coordinates are offset by half an element."""
    half = any(isinstance(s, Const) and s.value == -0.5 for s in terms)
    return (False, True) if half else (True, False)


def _ops(terms: Sequence[Term]) -> set[str]:
    return {s.op for s in terms if isinstance(s, CallTerm)}
