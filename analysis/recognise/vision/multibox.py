"""multibox_transform_loc: boxes from anchors and offsets, and scores above a threshold.

    centre = offset * variance * extent(anchor) + centre(anchor)      for x and y
    extent = exp(offset * variance) * extent(anchor)                  for width and height
    boxes[b, n]  = (top, left, bottom, right), perhaps clipped to [0, 1]
    scores[b, k] = s if s >= threshold else 0,   s = softmax_k(classes[b, k]) or the class itself

Without the background, class 0 scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Load, TensorVar
from ...terms.traversal import subterms, tensors

OP = "relax.vision.multibox_transform_loc"
INPUTS = ("float32[2, 3, 5]", "float32[2, 20]", "float32[1, 5, 4]")
PLAIN = {"clip": False, "threshold": 0.0, "keep_background": True, "apply_softmax": True}


def _case(inputs: tuple[str, ...], variances: tuple[float, ...], **attrs: object) -> Matches:
    return Matches(OP, inputs, {**PLAIN, "variances": variances, **attrs})


MATCHES = [
    _case(INPUTS, (1.0, 1.0, 1.0, 1.0)),
    _case(INPUTS, (0.1, 0.2, 0.25, 0.5), clip=True, threshold=0.01),
    _case(INPUTS, (0.1, 0.1, 0.2, 0.2), keep_background=False, threshold=0.5),
    _case(INPUTS, (0.1, 0.1, 0.2, 0.2), apply_softmax=False, threshold=0.25),
    _case(
        ("float16[1, 4, 6]", "float16[1, 24]", "float16[1, 6, 4]"),
        (0.5, 0.5, 1.0, 1.0),
        keep_background=False,
        apply_softmax=False,
    ),
]

REFUSES = [
    Refuses(
        "the boxes are the anchors, left first",
        """
@T.prim_func(s_tir=True)
def main(s: T.Buffer((1, 3, 5), "float32"), d: T.Buffer((1, 20), "float32"),
         a: T.Buffer((1, 5, 4), "float32"), boxes: T.Buffer((1, 5, 4), "float32"),
         out: T.Buffer((1, 3, 5), "float32")):
    for n, k in T.grid(5, 4):
        boxes[0, n, k] = a[0, n, k] + d[0, n * 4 + k] * a[0, n, k]
    for c, n in T.grid(3, 5):
        out[0, c, n] = s[0, c, n]
""",
    ),
]


@recogniser("multibox", precedence=660, ops=(OP,))
def multibox(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match operands by rank, and literals by what they multiply or are compared with."""
    if len(expression.outputs) != 2:
        return Refusal("expected two outputs, boxes and scores")
    boxes, scores = expression.outputs
    offsets = [t for t in tensors(boxes.body) if len(t.shape) == 2]
    anchors = [t for t in tensors(boxes.body) if len(t.shape) == 3]
    classes = list(tensors(scores.body))
    if not len(offsets) == len(anchors) == len(classes) == 1 or len(boxes.axes) != 3:
        return Refusal("the operands are not classes, offsets and anchors")
    operands = tuple(t.position for t in (classes[0], offsets[0], anchors[0]))
    ops = [{s.op for s in subterms(c.body) if isinstance(s, CallTerm)} for c in (boxes, scores)]
    attrs = {
        "clip": bool(ops[0] & {"min", "max"}),
        "variances": tuple(_variance(boxes, offsets[0], k) for k in range(4)),
        "apply_softmax": "exp" in ops[1],
    }
    return [
        Proposal(OP, operands, {**attrs, "threshold": threshold, "keep_background": keep})
        for threshold, keep in product(_thresholds(scores), ("ite" not in ops[1], True))
    ]


def _variance(definition: OutputDefinition, offsets: TensorVar, k: int) -> float:
    """The factor of the k-th offset of an anchor."""
    for term in subterms(definition.body):
        if not (isinstance(term, CallTerm) and term.op == "mul"):
            continue
        loads = [a for a in term.args if isinstance(a, Load) and a.tensor is offsets]
        factors = [a.value for a in term.args if isinstance(a, Const)]
        if loads and factors and (loads[0].indices[1] - definition.axes[1] * 4).const == k:
            return float(factors[0])
    return 1.0


def _thresholds(definition: OutputDefinition) -> list[float]:
    """The literals in comparisons."""
    compared = [
        term
        for term in subterms(definition.body)
        if isinstance(term, CallTerm) and term.dtype == "bool"
    ]
    literals = [a.value for term in compared for a in term.args if isinstance(a, Const)]
    return [float(v) for v in dict.fromkeys(literals) if not isinstance(v, (bool, str))]
