"""One change of a buffer's coordinates, and its effect on a tensor expression.

A change is a bijection between old and new coordinates (an injection for a crop). So a statement
about the expression over the new buffer is one about the old buffer. The choice of changes is a
guess; after a bad one, no operator is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..proofs.prove import prove
from ..terms.condition_terms import conj, ge0, negate, parts
from ..terms.integer import floordiv
from ..terms.quotient import is_div
from ..terms.term import (
    ONE,
    ZERO,
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
    mul,
    polynomial,
)
from ..terms.traversal import rebuild, substitute, subterms, tensors
from ..terms.traversal import replace as rebuilt

Index = tuple[Int, ...]
Facts = tuple[Term, ...]


@dataclass(frozen=True)
class CoordinateChange:
    """New coordinates of a buffer; ``old`` maps new coordinates back, ``new`` an access forth.

    ``new`` may use the facts that hold where the access is.
    """

    shape: Index
    old: Callable[[Index], Index]
    new: Callable[[Index, Facts], Index]


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


# ---------------------------------------------------------------------------- moves


def merge(tensor: TensorVar, outer: int, inner: int) -> CoordinateChange:
    """Merge dimensions that are the digits ``P // E`` and ``P % E`` into one that is P."""
    extent = tensor.shape[inner]
    place = outer - (inner < outer)

    def new(index: Index, _: Facts = ()) -> Index:
        out = list(index)
        out[outer] = mul(index[outer], extent) + index[inner]
        del out[inner]
        return tuple(out)

    def old(index: Index) -> Index:
        high = floordiv(index[place], extent)
        out = list(index)
        out[place] = high
        out.insert(inner, index[place] - mul(high, extent))
        return tuple(out)

    shape = list(tensor.shape)
    shape[outer] = mul(shape[outer], extent)
    del shape[inner]
    return CoordinateChange(tuple(shape), old, new)


def split(tensor: TensorVar, d: int, extent: Int) -> CoordinateChange:
    """Split a dimension that is ``extent * P + Q`` into two, P and Q."""

    def new(index: Index, facts: Facts = ()) -> Index:
        return (*index[:d], *digits(index[d], extent, facts), *index[d + 1 :])

    def old(index: Index) -> Index:
        return (*index[:d], mul(index[d], extent) + index[d + 1], *index[d + 2 :])

    high = floordiv(tensor.shape[d], extent)
    return CoordinateChange((*tensor.shape[:d], high, extent, *tensor.shape[d + 1 :]), old, new)


def arrange(tensor: TensorVar, order: Sequence[int | None]) -> CoordinateChange:
    """Reorder dimensions; None is a new one of extent 1, and omitted ones have extent 1."""
    assert all(tensor.shape[d] is ONE for d in range(len(tensor.shape)) if d not in order)

    def new(index: Index, _: Facts = ()) -> Index:
        return tuple(ZERO if d is None else index[d] for d in order)

    def old(index: Index) -> Index:
        return tuple(
            index[order.index(d)] if d in order else ZERO for d in range(len(tensor.shape))
        )

    return CoordinateChange(tuple(ONE if d is None else tensor.shape[d] for d in order), old, new)


def crop(tensor: TensorVar, d: int, extent: Int) -> CoordinateChange:
    """Keep only the first elements of a dimension."""
    shape = (*tensor.shape[:d], extent, *tensor.shape[d + 1 :])
    return CoordinateChange(shape, lambda index: index, lambda index, _: index)


def digits(poly: Int, extent: Int, facts: Facts = ()) -> tuple[Int, Int]:
    """Return ``poly // extent`` and ``poly % extent``, without divisions if the facts allow it."""
    exact = clean(poly, extent, facts)
    if exact is not None:
        return exact
    high = floordiv(poly, extent)
    return high, poly - mul(high, extent)


def clean(poly: Int, extent: Int, facts: Facts) -> tuple[Int, Int] | None:
    """Return ``(high, low)`` with ``poly = extent * high + low``, if low is the remainder."""
    k, shift = extent.const, next((c for m, c in poly.terms if not m), 0)
    high, low = factor_out(poly - shift if k else poly, extent)
    if high is ZERO:
        return None
    if not k:
        return (high, low) if inside(low, extent, facts) else None
    for quotient in dict.fromkeys((shift // k, shift // k + 1, 0)):
        if inside(low + (shift - quotient * k), extent, facts):
            return high + quotient, low + (shift - quotient * k)
    return None


def factor_out(poly: Int, extent: Int) -> tuple[Int, Int]:
    """Return ``(high, low)`` with ``poly = extent * high + low``; low has what does not divide."""
    ((mono, divisor),) = extent.terms
    high: dict[tuple[Term, ...], int] = {}
    for terms, coef in poly.terms:
        factors = list(terms)
        if coef % divisor == 0 and all(_take(factors, a) for a in mono):
            high[tuple(factors)] = coef // divisor
    upper = polynomial(high)
    return upper, poly - mul(upper, extent)


def _take(factors: list[Term], atom: Term) -> bool:
    present = atom in factors
    if present:
        factors.remove(atom)
    return present


def inside(poly: Int, extent: Int, facts: Facts) -> bool:
    """Return whether ``0 <= poly < extent`` wherever the facts hold."""
    return prove(conj(ge0(poly), ge0(extent - 1 - poly)), facts).proved


# ---------------------------------------------------------------------------- making a move


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
