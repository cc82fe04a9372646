"""Match elementwise operators by filling the holes of templates.

A compute is an operator if filling the holes of its template with the compute's own loads and
literals yields the compute. Terms are interned and in normal form, so the comparison is ``is``.
The constants of integers merge into polynomials; all literals that they may come from are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...lifting.tir.operations import bitwise, truncdiv
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...results.op_info import Refusal
from ...terms.term import INT_DTYPES, ZERO, CallTerm, Load, Term, as_int, integer
from ...terms.traversal import rebuild
from ._mixed import SizeOperand, unified
from ._scalar import Scalar, axis_of, broadcasts, covers, root, scalar
from ._template import ElementwiseOp, Template, learn, value_of

Form = Callable[[Term], Term]


def unchanged(term: Term) -> Term:
    return term


class Ops:
    """Elementwise ops, the most natural reading first."""

    def __init__(self, *ops: ElementwiseOp) -> None:
        self.ranked = tuple(enumerate(ops))
        #: The operators by the possible outermost operations of their formulas.
        self.by_root: dict[str, list[tuple[int, ElementwiseOp]]] = {}
        for rank, op in self.ranked:
            for name in op.roots.split():
                self.by_root.setdefault(name, []).append((rank, op))

    def __iter__(self) -> Iterator[ElementwiseOp]:
        return (op for _, op in self.ranked)


def proposals(
    expression: TensorExpression, ops: Ops, form: Form = unchanged
) -> list[Proposal] | Refusal:
    """Proposals of operators among ``ops`` that match the compute, the most natural first.

    Formulas are compared after applying ``form``, by default unchanged.
    """
    if len(expression.outputs) != 1:
        return Refusal("an elementwise operator has one output")
    (definition,) = expression.outputs
    formula = scalar(definition.body)
    if formula.reason or not formula.loads:
        return Refusal(formula.reason or "the compute reads nothing")
    ranked = _ranked(definition, formula, ops, form)
    if not ranked:
        return Refusal("no formula of these operators matches the compute", formula.root)
    return [proposal for _, proposal in ranked]


def mixed_proposals(expression: TensorExpression, ops: Ops) -> list[Proposal]:
    """Proposals for operands that are converted to one dtype first, or are sizes."""
    if len(expression.outputs) != 1:
        return []
    (definition,) = expression.outputs
    if root(definition.body) not in ops.by_root:
        return []
    proposals: list[Proposal] = []
    for body in unified(definition.body):
        formula = scalar(body)
        if not formula.reason and formula.loads:
            same = replace(definition, body=body)
            proposals += [proposal for _, proposal in _ranked(same, formula, ops, unchanged)]
    return proposals


def _ranked(
    definition: OutputDefinition, formula: Scalar, ops: Ops, form: Form
) -> list[tuple[tuple[int, ...], Proposal]]:
    """The proposals, the most natural first."""
    types = {x.tensor.dtype for x in formula.loads}
    ranked: list[tuple[tuple[int, ...], Proposal]] = []
    for rank, op in ops.by_root.get(formula.root, ()) if form is unchanged else ops.ranked:
        if form is unchanged and op.uses and op.uses not in formula.ops:
            continue
        if len(formula.loads) > len(op.operands) or not _read_alike(op, definition, formula):
            continue
        for dtype in types & op.types:
            if not types <= {kind or dtype for kind in op.operands}:
                continue  # an operand would have another dtype
            template = learn(op, dtype)
            if isinstance(template, Template) and template.dtype == definition.out.dtype:
                ranked += [
                    ((*_unnatural(proposal), rank), proposal)
                    for proposal in _fillings(op, template, definition, formula, form)
                ]
    return sorted(ranked, key=lambda item: item[0])


def _unnatural(proposal: Proposal) -> tuple[int, ...]:
    """A sort key: ``x - 2`` before ``x + -2``, ``x < 2`` before ``2 > x``, parameters in order."""
    negative = any(isinstance(v, (int, float)) and v < 0 for v in proposal.attrs.values())
    swapped = list(proposal.operands) != sorted(
        proposal.operands, key=lambda o: (not isinstance(o, int), o)
    )
    return int(negative), int("x1" in proposal.attrs), int(swapped)


def _read_alike(op: ElementwiseOp, definition: OutputDefinition, formula: Scalar) -> bool:
    if op.axis is not None:
        return True
    if not covers(formula.loads, definition):
        return False
    return all(broadcasts(load, definition) for load in formula.loads)


def _fillings(
    op: ElementwiseOp, template: Template, definition: OutputDefinition, formula: Scalar, form: Form
) -> Iterator[Proposal]:
    choices: list[Sequence[Term]] = []
    for k, hole in enumerate(template.operands):
        dtype = hole.tensor.dtype
        same_dtype: list[Term] = [x for x in formula.loads if x.tensor.dtype == dtype]
        choices.append([*same_dtype, *(_candidates(formula, dtype) if k in op.scalars else ())])
    marks = [*template.attrs.values(), *template.derived]
    choices += [_candidates(formula, m.dtype) for m in marks]
    loads, body = frozenset(formula.loads), form(definition.body)
    n = len(template.operands)
    for chosen in product(*choices):
        read = [x for x in chosen[:n] if isinstance(x, Load)]
        if frozenset(read) != loads:
            continue
        holes = {h: x for h, x in zip([*template.operands, *marks], chosen, strict=True)}
        if form(instantiate(template.body, holes)) is body:
            proposal = _proposal(op, definition, template, chosen[:n], chosen[n:])
            if proposal is not None:
                yield proposal


def _candidates(formula: Scalar, dtype: str) -> Sequence[Term]:
    if dtype == "int" or dtype in INT_DTYPES:
        return [integer(k) for k in formula.possible]
    return [x for x in formula.consts if x.dtype == dtype]


def _proposal(
    op: ElementwiseOp,
    definition: OutputDefinition,
    template: Template,
    operands: Sequence[Term],
    marks: Sequence[Term],
) -> Proposal | None:
    attrs: dict[str, Any] = {}
    notes: tuple[Undetermined, ...] = ()
    for k, term in enumerate(operands):
        if not isinstance(term, Load):
            attrs[f"x{k + 1}"] = value_of(term)
        elif isinstance(term.tensor, SizeOperand):
            attrs[f"x{k + 1}"] = term.tensor.value
    attrs.update({name: value_of(m) for name, m in zip(template.attrs, marks, strict=False)})
    if op.axis is not None:
        vector = operands[op.axis]
        axis = axis_of(vector, definition) if isinstance(vector, Load) else None
        if axis is None:
            return None
        attrs["axis"] = axis
        if isinstance(vector, Load) and vector.indices == (ZERO,) and len(definition.axes) > 1:
            extents = enumerate(definition.out.shape)
            known = tuple(d for d, e in extents if e.const is not None)
            notes = (Undetermined("axis", "the vector has one element", values=known),)
    positions = tuple(
        x.tensor.position
        for x in operands
        if isinstance(x, Load) and not isinstance(x.tensor, SizeOperand)
    )
    return Proposal(op.name, positions, attrs, undetermined=notes)


_NORMAL: dict[str, Callable[..., Term]] = {"truncdiv": truncdiv} | {
    op: partial(bitwise, op) for op in ("shl", "shr", "bitand", "bitor", "bitxor")
}


def instantiate(term: Term, holes: Mapping[Term, Term]) -> Term:
    """The term with its holes filled, in normal form."""
    memo: dict[Term, Term] = dict(holes)

    def go(term: Term) -> Term:
        filled = memo.get(term)
        if filled is None:
            filled = memo[term] = _rebuilt(term, go)
        return filled

    return go(term)


def _rebuilt(term: Term, go: Callable[[Term], Term]) -> Term:
    if not (isinstance(term, CallTerm) and term.op in _NORMAL):
        return rebuild(term, go)
    args = tuple(go(a) for a in term.args)
    if term.op == "truncdiv":
        return truncdiv(as_int(args[0]), as_int(args[1]))
    return _NORMAL[term.op](*args, term.dtype)
