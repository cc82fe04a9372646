"""A tensor expression over buffers in changed coordinates, and how its loads follow a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..terms.condition_terms import negate, parts
from ..terms.quotient import is_div
from ..terms.term import (
    CallTerm,
    Int,
    Load,
    TensorVar,
    Term,
    Var,
    as_int,
    axis,
    fresh,
    integer,
    load,
)
from ..terms.traversal import rebuild, substitute, subterms, tensors
from ..terms.traversal import replace as rebuilt
from .coordinate_change import CoordinateChange, Facts, inside


@dataclass(frozen=True)
class LogicalState:
    """A tensor expression, the coordinate changes of each parameter, and notes on padding."""

    lifted: TensorExpression
    moves: tuple[tuple[int, CoordinateChange], ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, position: int) -> tuple[CoordinateChange, ...]:
        return tuple(m for p, m in self.moves if p == position)

    def tensor(self, position: int) -> TensorVar:
        param = self.lifted.params[position]
        assert isinstance(param, TensorVar)
        return param


def apply_change(state: LogicalState, position: int, move: CoordinateChange) -> LogicalState:
    """Return the state after a change of one parameter; reductions are not normalised."""
    tensor = state.tensor(position)
    new = TensorVar(tensor.name, move.shape, tensor.dtype, tensor.position)
    outputs = []
    for definition in state.lifted.outputs:
        body = map_loads(
            definition.body, tensor, lambda x, facts: load(new, move.new(x.indices, facts))
        )
        outputs.append(
            _output(replace(definition, body=body), new, move)
            if definition.out is tensor
            else replace(definition, body=body)
        )
    params = tuple(new if p is tensor else p for p in state.lifted.params)
    lifted = replace(state.lifted, params=params, outputs=tuple(outputs))
    return replace(state, lifted=lifted, moves=(*state.moves, (position, move)))


def _output(
    definition: OutputDefinition, new: TensorVar, move: CoordinateChange
) -> OutputDefinition:
    axes = tuple(axis(d, e) for d, e in enumerate(new.shape))
    old = move.old(axes)
    pairs = [
        (coordinate.atom, index)
        for coordinate, index in zip(definition.axes, old, strict=True)
        if isinstance(coordinate.atom, Var)
    ]
    renamed = {v: as_int(fresh(v.extent, "t")) for v, _ in pairs if v.extent is not None}
    body = substitute(definition.body, renamed)
    back = {renamed[v].atom: index for v, index in pairs}
    return OutputDefinition(new, axes, substitute(body, back))  # type: ignore[arg-type]


#: Visits of sub-terms after which facts from selections are ignored.
VISITS = 5_000


def _of_places(*facts: Term) -> Facts:
    """The facts about indices, without comparisons of values."""
    return tuple(f for f in facts if not (f.children and "float" in f.children[0].dtype))


def map_loads(body: Term, tensor: TensorVar, fn: Callable[[Load, Facts], Term]) -> Term:
    """Replace the loads of a tensor; `fn` also gets the facts from enclosing selections.

    Shared terms are visited once for each set of facts; if there are too many, without facts.
    """
    memo: dict[tuple[Term, Facts], Term] = {}

    def go(term: Term, facts: Facts) -> Term:
        if tensor not in tensors(term):
            return term
        if len(memo) > VISITS:
            facts = ()
        result = memo.get((term, facts))
        if result is None:
            if isinstance(term, Load) and term.tensor is tensor:
                result = fn(term, facts)
            elif isinstance(term, CallTerm) and term.op == "ite":
                condition, yes, no = term.args
                if_so, if_not = _of_places(*parts(condition)), _of_places(negate(condition))
                branches = (
                    go(condition, facts),
                    go(yes, (*facts, *if_so)),
                    go(no, (*facts, *if_not)),
                )
                remaining = iter(branches)
                result = rebuild(term, lambda _: next(remaining))
            else:
                result = rebuild(term, lambda child: go(child, facts))
            memo[term, facts] = result
        return result

    return go(body, ())


def simplify_indices(state: LogicalState) -> LogicalState:
    """Return the state with ``P // E`` replaced by a literal where the facts leave one value."""
    outputs = []
    for definition in state.lifted.outputs:
        body = definition.body
        for tensor in sorted(tensors(body), key=lambda tensor: tensor.position):
            body = map_loads(body, tensor, _short)
        outputs.append(replace(definition, body=body))
    return replace(state, lifted=replace(state.lifted, outputs=tuple(outputs)))


def _short(read: Load, facts: Facts) -> Term:
    return load(read.tensor, tuple(_shorter(p, facts) for p in read.indices))


def _shorter(poly: Int, facts: Facts) -> Int:
    divisions = [s for s in subterms(poly) if is_div(s)] if facts else []
    for atom in sorted(divisions, key=lambda term: term.uid):
        num, den = map(as_int, atom.args)  # type: ignore[attr-defined]
        for quotient in (0, 1):  # the normal form has (x - 1) // 4 as (x + 3) // 4 - 1
            if inside(num - den * quotient, den, facts):
                return _shorter(as_int(rebuilt(poly, {atom: integer(quotient)})), facts)
    return poly


def guarded_loads(body: Term, tensor: TensorVar) -> Iterator[tuple[Load, Facts]]:
    """Yield the loads of a tensor, with the facts from enclosing selections."""
    loads: dict[tuple[Load, Facts], None] = {}

    def keep(read: Load, facts: Facts) -> Term:
        loads[read, facts] = None
        return as_int(read) if read.dtype in ("int", "int32", "int64") else read

    map_loads(body, tensor, keep)
    return iter(loads)
