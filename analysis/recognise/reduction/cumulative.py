"""Cumulative sums and products: ``out[.., y, ..] = ⊕_{r <= y} x[.., r, ..]``, exclusive ``r < y``.

``axis=None`` runs over x flattened: ``out[y] = ⊕_{r <= y} x[r // n, r % n]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load, Reduce, Term, Var, as_int
from ...terms.traversal import free, subterms
from .._forms.sums_of_products import bare

NAMES = {"add": "relax.cumsum", "mul": "relax.cumprod"}
NO_DTYPE = {"dtype": None}

MATCHES = [
    *(
        Matches(op, (f"{dtype}[3, 5, 4]",), {"axis": axis, "exclusive": exclusive})
        for op in NAMES.values()
        for dtype, axis, exclusive in (
            ("float32", 1, False),
            ("float16", 2, True),
            ("int64", 0, False),
            ("int8", 1, True),
        )
    ),
    *(Matches(op, ("float32[3, n, 4]",), {"axis": 1, "exclusive": False}) for op in NAMES.values()),
    *(Matches(op, ("float32[n, m]",), {"axis": 1, "exclusive": True}) for op in NAMES.values()),
    *(Matches(op, ("float32[3, 4]",), {"axis": None, "exclusive": False}) for op in NAMES.values()),
    Matches("relax.cumsum", ("int32[3, 4, 5]",), {"axis": None, "exclusive": True}),
    Matches("relax.cumsum", ("float32[6]",), {"axis": None}, {"axis": 0, "exclusive": False}),
    Matches("relax.cumsum", ("float32[3, 2]",), {"axis": 1, "exclusive": False}),
    Matches("relax.cumprod", ("float32[3, 2]",), {"axis": 1, "exclusive": True}),
    Matches("relax.cumsum", ("float16[n, 4]",), {"axis": 0, "dtype": "float32"}),
    Matches(
        "relax.cumsum",
        ("int8[3, 4]",),
        {"axis": -1, "dtype": "int32"},
        {"axis": 1, "dtype": "int32"},
    ),
    Matches("relax.cumsum", ("bool[3, 4]",), {"axis": 1, "dtype": "int32"}),
    Matches(
        "relax.cumsum", ("float32[3, 4]",), {"axis": 1, "dtype": "float32"}, {"axis": 1} | NO_DTYPE
    ),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4, 6), "float32")):
    for i in range(4):
        out[i, 0] = {first}
        for k in range({extent}):
            out[i, k + 1] = {value}
"""
_RIGHT = {"first": "x[i, 0]", "extent": 5, "value": "out[i, k] + x[i, k + 1]"}

REFUSES = [
    Refuses("a sum that starts at 1", _HEAD.format(**_RIGHT | {"first": "T.float32(1)"})),
    Refuses("a difference", _HEAD.format(**_RIGHT | {"value": "x[i, k + 1] - out[i, k]"})),
    Refuses(
        "a sum of squares", _HEAD.format(**_RIGHT | {"value": "out[i, k] + x[i, k] * x[i, k]"})
    ),
    Refuses(
        "an exclusive sum from the first element",
        _HEAD.format(**_RIGHT | {"value": "out[i, k] + x[i, k]"}),
    ),
    Refuses(
        "exclusive and shifted by two",
        _HEAD.format(
            **_RIGHT
            | {
                "first": "T.float32(0)",
                "value": "out[i, k] + T.if_then_else(k > 0, x[i, k - 1], T.float32(0))",
            }
        ),
    ),
    Refuses(
        "the sum of another row", _HEAD.format(**_RIGHT | {"value": "out[i, k] + x[3 - i, k + 1]"})
    ),
]


@recogniser("cumulative", precedence=425, ops=tuple(NAMES.values()))
def cumulative(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a reduction whose guard compares its axis with an output coordinate."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1:
        return Refusal("a scan has one output")
    term = bare(definition.body)
    if isinstance(term, Reduce) and term.op in NAMES:
        return _scan(definition, term)
    return _of_two(definition, term)


def _scan(definition: OutputDefinition, reduction: Reduce) -> Sequence[Proposal] | Refusal:
    loads = [
        term
        for term in subterms(reduction.body)
        if isinstance(term, Load) and free(term) & set(reduction.axes)
    ]
    if len(loads) != 1:
        return Refusal("the scan is not over one load")
    exclusive = any(dict(p.terms).get(()) == -1 for p in _bounds(reduction.body, reduction.axes))
    load = loads[0]
    scanned = [d for d, i in enumerate(load.indices) if free(i) & set(reduction.axes)]
    flat = len(definition.out.shape) != len(load.tensor.shape)
    if not flat and len(scanned) != 1:
        return Refusal("the scan does not run along one dimension")
    return [_proposal(reduction.op, load, definition, None if flat else scanned[0], exclusive)]


def _bounds(term: Term, axes: Sequence[Var]) -> list[Int]:
    """The polynomials p of guards ``p >= 0`` on the axes."""
    guards = [
        as_int(call.args[0])
        for call in subterms(term)
        if isinstance(call, CallTerm) and call.op == "ge0"
    ]
    return [p for p in guards if free(p) & set(axes)]


def _of_two(definition: OutputDefinition, term: Term) -> Sequence[Proposal] | Refusal:
    """Match a scan of two elements: ``x[1] + x[0] if y >= 1 else x[0]``.

    The exclusive scan is ``x[0] if y >= 1 else 0``.
    """
    loads = [s for s in subterms(term) if isinstance(s, Load)]
    if not (isinstance(term, CallTerm) and term.op == "ite") or len({x.tensor for x in loads}) != 1:
        return Refusal("the compute is not a scan")
    load, ops = (
        loads[0],
        [s.op for s in subterms(term) if isinstance(s, CallTerm) and s.op in NAMES],
    )
    same = load.tensor.shape == definition.out.shape
    axes = [d for d, e in enumerate(load.tensor.shape) if e.const == 2] if same else [None]
    return [
        _proposal(op, load, definition, axis, exclusive=len(loads) == 1)
        for op in ops or NAMES
        for axis in axes
    ]


def _proposal(
    op: str, load: Load, definition: OutputDefinition, axis: int | None, exclusive: bool
) -> Proposal:
    dtype = None if definition.out.dtype == load.tensor.dtype else definition.out.dtype
    attrs: dict[str, Any] = {"axis": axis, "dtype": dtype, "exclusive": exclusive}
    notes = []
    if len(load.tensor.shape) == 1:
        notes.append(Undetermined("axis", "there is one dimension", values=(0, None)))
    if dtype is None:
        dtypes = (None, load.tensor.dtype)
        notes.append(Undetermined("dtype", "it is the operand's own", values=dtypes))
    return Proposal(NAMES[op], (load.tensor.position,), attrs, undetermined=tuple(notes))
