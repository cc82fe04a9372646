"""The scalar formula of elementwise operators, and how their operands are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...lifting.effects.tensor_expression import OutputDefinition
from ...terms.term import ONE, ZERO, CallTerm, Const, Int, Load, Reduce, Term, Var

#: Formulas with more nodes are not elementwise operators of Relax.
LIMIT = 200


@dataclass(frozen=True)
class Scalar:
    """A formula: its outermost operation, its loads in order, constants, literal integers.

    ``possible`` are integers that may have been literals before they merged into a polynomial.
    ``reason`` says why it is not a scalar formula.
    """

    root: str
    ops: frozenset[str]
    loads: tuple[Load, ...]
    consts: tuple[Const, ...]
    integers: tuple[int, ...]
    possible: tuple[int, ...]
    reason: str = ""


def root(term: Term) -> str:
    """The outermost operation; ``poly`` for an integer that is neither a literal nor an atom."""
    if isinstance(term, Int):
        if term.const is not None:
            return "const"
        return "poly" if term.atom is None else root(term.atom)
    if isinstance(term, CallTerm):
        return term.op
    return type(term).__name__.lower()


def scalar(term: Term) -> Scalar:
    """The formula of a body down to its loads, cached on the term."""
    formula = term.memo.get("scalar")
    if formula is None:
        formula = term.memo["scalar"] = _scalar(term)
    assert isinstance(formula, Scalar)
    return formula


def _scalar(body: Term) -> Scalar:
    seen: dict[Term, None] = {body: None}
    stack = [body]
    reason = ""
    while stack and not reason:
        term = stack.pop()
        if isinstance(term, (Reduce, Var)):
            reason = f"the compute has a {root(term)}"
        children = (
            (a for m, _ in term.terms for a in m)
            if isinstance(term, Int)
            else getattr(term, "args", ())
        )
        for child in children:
            if child not in seen:
                seen[child] = None
                stack.append(child)
        if len(seen) > LIMIT:
            reason = "the compute is too large"
    integers, possible = _integers(seen)
    return Scalar(
        root(body),
        frozenset(s.op for s in seen if isinstance(s, CallTerm)),
        tuple(s for s in seen if isinstance(s, Load)),
        tuple(s for s in seen if isinstance(s, Const)),
        integers,
        possible,
        reason,
    )


def _integers(terms: Iterable[Term]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    integers: dict[int, None] = {}
    possible: dict[int, None] = {}
    for term in terms:
        if not isinstance(term, Int):
            continue
        if term.const is not None:
            integers[term.const] = None
        for mono, coef in term.terms or (((), 0),):
            variants = (
                (coef, -coef, coef + 1, -coef + 1, coef - 1, -coef - 1)
                if not mono
                else (coef, -coef)
            )
            possible.update(dict.fromkeys(variants))
            if coef > 0 and coef & (coef - 1) == 0:
                possible[coef.bit_length() - 1] = None
        possible[0] = None
    return tuple(integers), tuple(possible)


def broadcasts(load: Load, definition: OutputDefinition) -> bool:
    """Whether an operand is read by broadcasting: aligned right, at 0 if its extent is 1."""
    skip = len(definition.axes) - len(load.indices)
    return skip >= 0 and all(
        (index is ZERO and extent is ONE)
        or (index is definition.axes[skip + d] and extent is definition.out.shape[skip + d])
        for d, (index, extent) in enumerate(zip(load.indices, load.tensor.shape, strict=True))
    )


def covers(loads: Iterable[Load], definition: OutputDefinition) -> bool:
    """Whether the operands' shapes broadcast to the output's."""
    rank = len(definition.axes)
    covered = {
        rank - len(load.indices) + d
        for load in loads
        for d, index in enumerate(load.indices)
        if index is not ZERO
    }
    full_rank = max((len(x.indices) for x in loads), default=0) == rank
    return full_rank and all(e is ONE or d in covered for d, e in enumerate(definition.out.shape))


def axis_of(load: Load, definition: OutputDefinition) -> int | None:
    """The output's axis along which a vector is read."""
    if len(load.indices) != 1:
        return None
    (index,) = load.indices
    axes = [
        d
        for d, (axis, extent) in enumerate(zip(definition.axes, definition.out.shape, strict=True))
        if index is axis and extent is load.tensor.shape[0]
    ]
    if not axes and load.tensor.shape[0] is ONE:
        # One element for all: any axis, of which TVM must know the extent; 1 is the default.
        known = [d for d, e in enumerate(definition.out.shape) if e.const is not None]
        return 1 if 1 in known else next(iter(known), None)
    return axes[0] if axes else None
