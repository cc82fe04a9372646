"""Pooling of regions of interest: roi_align and roi_pool.

    rois[i] = (image, left, top, right, bottom), scaled by ``spatial_scale``
    roi_align:  out[i, c, y] = mean or max of ``sample_ratio`` points per axis of bin y
    roi_pool:   out[i, c, y] = max over the elements of bin y, 0 for an empty one

The sizes are those of the output, and points are interpolated. Unless aligned, a region of
roi_align has an extent of at least 1. With a ``sample_ratio`` of 0 the number of points depends on
the region; such a loop is not lifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Load, Reduce, TensorVar, Term
from ...terms.term.literals import is_const
from ...terms.traversal import subterms, tensors
from .._forms.access_functions import dims
from .._forms.reduced_dimensions import iterations
from .._forms.sums_of_products import bare, uncast

ALIGN, POOL = "relax.vision.roi_align", "relax.vision.roi_pool"


def _aligned(data: str, ratio: int, mode: str, aligned: bool, scale: float, layout: str) -> Matches:
    attrs = {"pooled_size": (3, 2), "spatial_scale": scale, "sample_ratio": ratio, "mode": mode}
    rois = f"{data[: data.index('[')]}[5, 5]"
    return Matches(ALIGN, (data, rois), {**attrs, "aligned": aligned, "layout": layout})


MATCHES = [
    _aligned("float32[2, 3, 8, 9]", 2, "avg", False, 1.0, "NCHW"),
    _aligned("float32[2, 3, 8, 9]", 2, "avg", True, 0.25, "NCHW"),
    _aligned("float32[2, 8, 9, 3]", 3, "max", False, 0.5, "NHWC"),
    _aligned("float16[n, 3, 8, 9]", 1, "avg", True, 0.125, "NCHW"),
    Matches(
        POOL,
        ("float32[2, 3, 8, 9]", "float32[n, 5]"),
        {"pooled_size": (3, 2), "spatial_scale": 0.0625, "layout": "NCHW"},
    ),
    Matches(
        POOL,
        ("float16[n, 3, 4, 4]", "float16[5, 5]"),
        {"pooled_size": (2, 2), "spatial_scale": 1.0, "layout": "NCHW"},
    ),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 3, 8, 8), "float32"), rois: T.Buffer((5, 5), "float32"),
         out: T.Buffer((5, 3, 2, 2), "float32")):
    for i, c, y, z in T.grid(5, 3, 2, 2):
        out[i, c, y, z] = {value}
"""

REFUSES = [
    Refuses(
        "the image has one dimension",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((8,), "float32"), r: T.Buffer((2, 5), "float32"),
      out: T.Buffer((2, 3, 2, 2), "float32")):
    for n, c, i, j in T.grid(2, 3, 2, 2):
        out[n, c, i, j] = x[T.Cast("int32", r[n, 0]) + c]
""",
    ),
    Refuses(
        "a single element of the region's image",
        _HEAD.format(value='x[T.Cast("int64", rois[i, 0]), c, y, z]'),
    ),
    Refuses(
        "the element at which the region begins",
        _HEAD.format(
            value='x[T.Cast("int64", rois[i, 0]), c, T.Cast("int64", T.floor(rois[i, 2])), '
            'T.Cast("int64", T.floor(rois[i, 1]))]'
        ),
    ),
]


@recogniser("roi", precedence=650, ops=(ALIGN, POOL))
def roi(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a tensor read at regions from data; the form gives mode, ratio and alignment."""
    (definition,) = expression.outputs[:1]
    if (
        len(expression.outputs) != 1
        or len(definition.axes) != 4
        or len(tensors(definition.body)) != 2
    ):
        return Refusal("the operands are not an image and regions")
    loads = [load for load in subterms(definition.body) if isinstance(load, Load)]
    images = {load.tensor for load in loads if any(tensors(i) for i in load.indices)}
    if len(images) != 1:
        return Refusal("no tensor is read at indices from another")
    (tensor,) = images
    if len(tensor.shape) != 4:
        return Refusal("an image has four dimensions")
    (rois,) = tensors(definition.body) - images
    if len(rois.shape) != 2 or rois.shape[1].const != 5:
        return Refusal("a region has five numbers")
    channel = [
        load.indices[place] is definition.axes[place]
        for place in (1, 3)
        for load in loads
        if load.tensor is tensor
    ][:1]
    layout = "NCHW" if channel == [True] else "NHWC"
    scale = _scale(definition, rois)
    size = dims([definition.out.shape[layout.index(a)] for a in "HW"])
    attrs = {"pooled_size": size, "spatial_scale": scale, "layout": layout}
    layouts = {tensor.position: layout, definition.out.position: layout}
    operands = (tensor.position, rois.position)
    pool = (
        isinstance(bare(definition.body), CallTerm)
        and getattr(bare(definition.body), "op", "") == "ite"
    )
    if pool:
        return [Proposal(POOL, operands, attrs, layouts)]
    sampling = _sampling(definition)
    if sampling is None:
        return Refusal("the compute is not a mean or maximum of points")
    return [Proposal(ALIGN, operands, {**attrs, **sampling}, layouts)]


def _scale(definition: OutputDefinition, rois: TensorVar) -> float:
    """The literal that multiplies the coordinates of a region."""
    for term in subterms(definition.body):
        if isinstance(term, CallTerm) and term.op == "mul":
            factors = [a.value for a in term.args if isinstance(a, Const)]
            read = [operand for a in term.args if isinstance(operand := uncast(a), Load)]
            if factors and any(x.tensor is rois for x in read):
                return float(factors[0])
    return 1.0


def _sampling(definition: OutputDefinition) -> dict[str, object] | None:
    """Mode, ratio and alignment; one point needs no reduction."""
    term = uncast(definition.body)
    points: int | None = 1
    if isinstance(term, Reduce):
        points = iterations(term.axes).const
    op = term.op if isinstance(term, (Reduce, CallTerm)) else ""
    if points is None or op not in ("add", "max"):
        return None
    least = any(_at_least_one(s) for s in subterms(definition.body))
    mode = "avg" if op == "add" else "max"
    return {"mode": mode, "sample_ratio": isqrt(points), "aligned": not least}


def _at_least_one(term: Term) -> bool:
    return (
        isinstance(term, CallTerm) and term.op == "max" and any(is_const(a, 1) for a in term.args)
    )
