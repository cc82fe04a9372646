"""The index of the largest or smallest element, the first of equal ones.

    index, value = -1, lowest
    for k in order:
        index = index if value > x[k] or value == x[k] and index < k else k
        value = value if value > x[k] else x[k]
    out = index

``k`` runs over one dimension, or over all of them flattened. argmin has ``<`` and ``highest``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Const, Fold, Int, Load, TensorVar, Term
from ...terms.traversal import free, subterms
from .._forms.reduced_dimensions import units
from .._forms.sums_of_products import uncast
from .reduce import shape_without

OPS = ("relax.argmax", "relax.argmin")

MATCHES = [
    *(
        Matches(op, (f"{dtype}[2, n, 5]",), {"axis": 1, "keepdims": False})
        for op in OPS
        for dtype in ("float32", "float16", "int64", "uint8")
    ),
    *(Matches(op, ("float32[2, 3, n]",), {"axis": 2, "keepdims": True}) for op in OPS),
    *(Matches(op, ("float32[n, m]",), {}, {"axis": None, "keepdims": False}) for op in OPS),
    Matches("relax.argmax", ("float32[2, 3, 4]",), {"axis": None, "keepdims": True}),
    Matches("relax.argmax", ("float32[6]",), {"axis": 0}, {"axis": None, "keepdims": False}),
    *(Matches(op, ("float32[n, 1, 4]",), {"axis": 1, "keepdims": True}) for op in OPS),
    *(Matches(op, ("int32[n, 1, 4]",), {"axis": 1, "keepdims": False}) for op in OPS),
    Matches("relax.argmax", ("float16[1]",), {"axis": 0}, {"axis": None, "keepdims": False}),
    Matches("relax.argmin", ("int32[1, 4]",), {"axis": -1}, {"axis": 1, "keepdims": False}),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4,), "int64")):
    best = T.alloc_buffer((4,))
    where = T.alloc_buffer((4,), "int64")
    for i, k in T.grid(4, {extent}):
        with T.sblock("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                where[vi] = T.int64({start})
                best[vi] = T.float32(-3.4028234663852886e+38)
            w: T.let[T.int64] = T.Select({keep}, where[vi], T.Cast("int64", vk){shift})
            b: T.let[T.float32] = T.Select(best[vi] > x[vi, vk], best[vi], x[vi, vk])
            where[vi] = w
            best[vi] = b
    for i in range(4):
        with T.sblock("out"):
            vi = T.axis.spatial(4, i)
            out[vi] = where[vi]
"""
_FIRST = "best[vi] > x[vi, vk] or best[vi] == x[vi, vk] and where[vi] < vk"
_RIGHT = {"extent": 6, "start": -1, "keep": _FIRST, "shift": ""}

REFUSES = [
    Refuses(
        "the last of equal elements", _BODY.format(**_RIGHT | {"keep": "best[vi] > x[vi, vk]"})
    ),
    Refuses("one element fewer", _BODY.format(**_RIGHT | {"extent": 5})),
    Refuses("another index if no element is larger", _BODY.format(**_RIGHT | {"start": 0})),
    Refuses("indices counted from 1", _BODY.format(**_RIGHT | {"shift": " + T.int64(1)"})),
    Refuses(
        "a minimum against a maximum", _BODY.format(**_RIGHT | {"keep": _FIRST.replace(">", "<")})
    ),
]


@recogniser("argmax", precedence=420, ops=OPS)
def argmax(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a fold of an index and a value that starts below or above all others."""
    term = uncast(expression.outputs[0].body)
    if len(expression.outputs) == 1 and isinstance(term, CallTerm) and term.op == "ite":
        return _of_one_element(expression.outputs[0].out, term)
    if len(expression.outputs) != 1 or not isinstance(term, Fold) or len(term.states) != 2:
        return Refusal("the compute is not a loop over an index and a value")
    load = next((s for s in subterms(term.updates[1]) if isinstance(s, Load)), None)
    start = _literal(term.inits[1])
    first = term.inits[1]
    begins = load is not None and isinstance(first, Load) and first.tensor is load.tensor
    if load is None or (start is None and not begins):
        return Refusal("the compute does not search one tensor, from a literal or its first")
    searched = [d for d, i in enumerate(load.indices) if term.axis in free(i)]
    rank, shape = len(load.indices), expression.outputs[0].out.shape
    keepdims = len(shape) == rank
    flattened = len(searched) != 1 or rank == 1 or (not keepdims and len(shape) != rank - 1)
    only_axis = keepdims and not flattened and len(units(load.tensor)) == rank - 1
    loose = among("axis", [searched[0], None] if only_axis else [], "the other extents are 1")
    return [
        Proposal(
            op,
            (load.tensor.position,),
            {"axis": None if flattened else searched[0], "keepdims": keepdims},
            undetermined=loose,
        )
        for op in (OPS if start is None else [OPS[start > 0]])
    ]


def _of_one_element(out: TensorVar, call: CallTerm) -> Sequence[Proposal] | Refusal:
    """Match ``0 if x[..] > lowest else -1``: the index along a dimension of extent 1."""
    loads = {s for s in subterms(call) if isinstance(s, Load)}
    if len(loads) != 1 or {_literal(v) for v in call.args[1:]} != {0, -1}:
        return Refusal("the compute is not the index of the only element")
    tensor = loads.pop().tensor
    keepdims = len(out.shape) == len(tensor.shape)
    axes = [[d] for d in units(tensor) if shape_without(tensor, [d], keepdims) == out.shape]
    if not axes:
        return Refusal("no dimension of extent 1 is searched")
    axis = None if len(tensor.shape) == 1 else axes[0][0]
    attrs = {"axis": axis, "keepdims": keepdims}
    loose = among("axis", [d for (d,) in axes], "dimensions of extent 1 are alike")
    return [Proposal(op, (tensor.position,), attrs, undetermined=loose) for op in OPS]


def _literal(term: Term) -> float | None:
    if isinstance(term, Int):
        return term.const
    return float(term.value) if isinstance(term, Const) else None
