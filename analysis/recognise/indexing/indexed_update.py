"""Stores at indices from data: scatter_elements, scatter_nd, index_put, the gradient of take.

Each element is a fold over the updates, in their order:

    out[y] = data[y];  for k: if place(k) == y: out[y] = update(out[y], u[k])

- scatter_elements: ``place(k) = (.., p[k], ..)`` on one axis, the other coordinates are k's;
- scatter_nd: ``place(k, j) = (p[k, 0], p[k, 1], .., j)``;
- index_put: ``place(k) = (p0[k], p1[k], ..)``; its loop is parallel;
- take_backward: ``place(k, j) = (p[k], j)``, from zero.

The first and the third add the extent to negative indices. ``update`` is the reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Fold, Int, Load, TensorVar, Term
from ...terms.term.literals import is_const
from ...terms.traversal import free, subterms
from .._forms.sums_of_products import bare

REDUCTIONS = ("update", "add", "mul", "mean", "max", "min")
ELEMENTS, ND, PUT = "relax.scatter_elements", "relax.scatter_nd", "relax.index_put"
BACKWARD = "relax.grad.take_backward"

MATCHES = [
    *(
        Matches(
            ELEMENTS,
            (f"{dtype}[5, 4]", f"{index}[3, 4]", f"{dtype}[3, 4]"),
            {"axis": axis, "reduction": reduction},
        )
        for dtype, index, axis, reduction in (
            ("float32", "int64", 0, "update"),
            ("float32", "int64", 1, "update"),
            ("float16", "int64", 0, "add"),
            ("float32", "int32", 1, "add"),
            ("int32", "int64", 0, "add"),
            ("float32", "int64", 0, "mul"),
            ("int64", "int64", 0, "mul"),
            ("float32", "int64", 0, "mean"),
            ("float32", "int64", 0, "max"),
            ("int8", "int64", 1, "min"),
        )
    ),
    Matches(ELEMENTS, ("float32[2, 5, 3]", "int64[2, 4, 3]", "float32[2, 4, 3]"), {"axis": 1}),
    Matches(ELEMENTS, ("float32[n, 4]", "int64[m, 4]", "float32[m, 4]"), {"axis": 0}),
    Matches(ELEMENTS, ("float32[7]", "int64[3]", "float32[3]"), {"axis": -1}, {"axis": 0}),
    *(
        Matches(
            ND,
            (f"{dtype}[5, 4]", f"{index}[3, 1]", f"{dtype}[3, 4]"),
            {"reduction": reduction},
        )
        for dtype, index, reduction in (
            ("float32", "int64", "update"),
            ("float16", "int32", "add"),
            ("int32", "int64", "mul"),
            ("float32", "int64", "max"),
            ("float32", "int64", "min"),
        )
    ),
    Matches(ND, ("float32[5, 4]", "int64[3, 2]", "float32[3]"), {"reduction": "add"}),
    Matches(
        ND, ("float32[5, 4, 3]", "int64[2, 3, 2]", "float32[2, 3, 3]"), {"reduction": "update"}
    ),
    Matches(ND, ("float32[n, 4]", "int64[m, 1]", "float32[m, 4]"), {"reduction": "add"}),
    *(
        Matches(PUT, (f"{dtype}[5, 4]", "int64[3]", "int64[3]", f"{dtype}[3]"), {"accumulate": add})
        for dtype, add in (
            ("float32", False),
            ("float32", True),
            ("float16", True),
            ("int32", False),
        )
    ),
    Matches(PUT, ("float32[5]", "int64[3]", "float32[3]"), {"accumulate": False}),
    Matches(
        PUT, ("float32[5, 4]", "int64[3, 1]", "int64[2]", "float32[3, 2]"), {"accumulate": True}
    ),
    *(
        Matches(BACKWARD, operands, {"axis": axis})
        for operands, axis in (
            (("float32[3, 4]", "float32[5, 4]", "int64[3]"), 0),
            (("float32[2, 3, 4]", "float32[2, 5, 4]", "int64[3]"), 1),
            (("float16[2, 3]", "float16[2, 5]", "int32[3]"), 1),
            (("float32[n, 4]", "float32[m, 4]", "int64[n]"), 0),
        )
    ),
    Matches(BACKWARD, ("float32[3]", "float32[5]", "int64[3]"), {"axis": None}, {"axis": 0}),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(data: T.Buffer((5, 4), "float32"), p: T.Buffer((3, 1), "int64"),
         u: T.Buffer((3, 4), "float32"), out: T.Buffer((5, 4), "float32")):
    for i, j in T.grid(5, 4):
        out[i, j] = {data}
    for k in {loop}:
        for j in range(4):
            out[p[{k}, 0], j] = {value}
"""
_RIGHT = {"data": "data[i, j]", "loop": "range(3)", "k": "k", "value": "u[k, j]"}

REFUSES = [
    Refuses("the other elements are lost", _HEAD.format(**_RIGHT | {"data": "T.float32(0)"})),
    Refuses(
        "the first store to an index wins",
        _HEAD.format(**_RIGHT | {"k": "2 - k", "value": "u[2 - k, j]"}),
    ),
    Refuses("indices in another order", _HEAD.format(**_RIGHT | {"k": "2 - k"})),
    Refuses("one update fewer", _HEAD.format(**_RIGHT | {"loop": "range(2)"})),
    Refuses("a difference", _HEAD.format(**_RIGHT | {"value": "out[p[k, 0], j] - u[k, j]"})),
    Refuses(
        "the update is added to the data",
        _HEAD.format(**_RIGHT | {"value": "data[k, j] + u[k, j]"}),
    ),
]


@recogniser("indexed_update", precedence=427, ops=(ELEMENTS, ND, PUT, BACKWARD))
def indexed_update(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a fold of one state that starts from the element of a tensor, or from zero."""
    definition = expression.outputs[0]
    term = bare(definition.body)
    if len(expression.outputs) != 1 or not isinstance(term, Fold) or len(term.states) != 1:
        return Refusal("the compute is not a fold of one element")
    choice = bare(term.updates[0])
    if not (isinstance(choice, CallTerm) and choice.op == "ite"):
        return Refusal("some update does not select its element")
    places = _tensors(choice.args[0])
    updates = [x for x in _tensors(choice.args[1]) if x not in places]
    reduction = _reduction(bare(choice.args[1]), term.states[0])
    if len(updates) != 1 or not places or reduction is None:
        return Refusal("the update does not come from one tensor")
    start = bare(term.inits[0])
    if is_const(start, 0) and reduction == "add":
        return list(_backward(expression, definition, places, updates[0], term))
    if not (isinstance(start, Load) and start.indices == definition.axes):
        return Refusal("the initial value of an element is not the data")
    return list(_proposals(start.tensor, places, updates[0], reduction, choice.args[0], term))


def _tensors(term: Term) -> list[TensorVar]:
    """The tensors that are read, in parameter order."""
    tensors = {s.tensor for s in subterms(term) if isinstance(s, Load)}
    return sorted(tensors, key=lambda tensor: tensor.position)


def _reduction(value: Term, state: Term) -> str | None:
    """The reduction that combines the state and the update, or None."""
    if state not in set(subterms(value)):
        return "update"
    if isinstance(value, Int):
        return "add" if len(value.terms) > 1 else "mul"
    if not isinstance(value, CallTerm):
        return None
    if value.op in ("div", "truncdiv") and is_const(value.args[1], 2):
        return "mean"
    return value.op if value.op in REDUCTIONS else None


def _proposals(
    data: TensorVar,
    places: list[TensorVar],
    update: TensorVar,
    reduction: str,
    condition: Term,
    fold: Fold,
) -> Iterator[Proposal]:
    operands = (data.position, *(p.position for p in places), update.position)
    index, rank = places[0], len(data.shape)
    if (
        len(places) == 1
        and len(index.shape) == rank == len(update.shape)
        and index.shape == update.shape
    ):
        for axis in _axes(index, condition, fold):
            yield Proposal(ELEMENTS, operands, {"axis": axis, "reduction": reduction})
    if (
        len(places) == 1
        and index.shape[:-1] == update.shape[: len(index.shape) - 1]
        and reduction != "mean"
    ):
        yield Proposal(ND, operands, {"reduction": reduction})
    if len(places) == rank and reduction in ("update", "add"):
        yield Proposal(PUT, operands, {"accumulate": reduction == "add"})


def _axes(tensor: TensorVar, condition: Term, fold: Fold) -> list[int]:
    """The dimensions that the fold may run over."""
    load = next(s for s in subterms(condition) if isinstance(s, Load) and s.tensor is tensor)
    folded = [d for d, i in enumerate(load.indices) if fold.axis in free(i)]
    return folded if len(folded) == 1 else list(range(len(tensor.shape)))


def _backward(
    expression: TensorExpression,
    definition: OutputDefinition,
    places: list[TensorVar],
    tensor: TensorVar,
    fold: Fold,
) -> Iterator[Proposal]:
    """Match the gradient of take; its operand is not read, only its shape is used."""
    used = {tensor, *places}
    spare = [
        param
        for param in expression.inputs
        if isinstance(param, TensorVar)
        and param not in used
        and param.shape == definition.out.shape
    ]
    if len(places) != 1 or len(places[0].shape) != 1 or not spare:
        return
    operands = (tensor.position, spare[0].position, places[0].position)
    notes = (Undetermined("axis", "there is one dimension", values=(0, None)),)
    loads = [s for s in subterms(fold.updates[0]) if isinstance(s, Load) and s.tensor is tensor]
    folded = [d for d, i in enumerate(loads[0].indices) if fold.axis in free(i)]
    for axis in folded if len(folded) == 1 else range(len(tensor.shape)):
        loose = notes if len(tensor.shape) == 1 else ()
        yield Proposal(BACKWARD, operands, {"axis": axis}, undetermined=loose)
