"""The scalar formula of elementwise operators, and how their operands are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..lifting.effects.tensor_expression import Comprehension
from ..terms.term import ONE, ZERO, CallTerm, Const, Int, Load, Reduce, Term, Var

#: Formulas with more nodes are not elementwise operators of Relax.
LIMIT = 200


@dataclass(frozen=True)
class Scalar:
    """A formula: its outermost operation, its loads in order, constants, literal integers.

    ``near`` are integers that may have been literals before they merged into a polynomial.
    ``reason`` says why it is not a scalar formula.
    """

    root: str
    ops: frozenset[str]
    loads: tuple[Load, ...]
    consts: tuple[Const, ...]
    whole: tuple[int, ...]
    near: tuple[int, ...]
    reason: str = ""


def root(term: Term) -> str:
    """``poly`` stands for an integer that is neither a literal nor a single atom."""
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


def _scalar(t: Term) -> Scalar:
    seen: dict[Term, None] = {t: None}
    stack = [t]
    reason = ""
    while stack and not reason:
        s = stack.pop()
        if isinstance(s, (Reduce, Var)):
            reason = f"the compute has a {root(s)}"
        inner = (a for m, _ in s.terms for a in m) if isinstance(s, Int) else getattr(s, "args", ())
        for x in inner:
            if x not in seen:
                seen[x] = None
                stack.append(x)
        if len(seen) > LIMIT:
            reason = "the compute is too large"
    whole, near = _integers(seen)
    return Scalar(
        root(t),
        frozenset(s.op for s in seen if isinstance(s, CallTerm)),
        tuple(s for s in seen if isinstance(s, Load)),
        tuple(s for s in seen if isinstance(s, Const)),
        whole,
        near,
        reason,
    )


def _integers(terms: Iterable[Term]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    whole: dict[int, None] = {}
    near: dict[int, None] = {}
    for term in terms:
        if not isinstance(term, Int):
            continue
        if term.const is not None:
            whole[term.const] = None
        for mono, c in term.terms or (((), 0),):
            around = (c, -c, c + 1, -c + 1, c - 1, -c - 1) if not mono else (c, -c)
            near.update(dict.fromkeys(around))
            if c > 0 and c & (c - 1) == 0:
                near[c.bit_length() - 1] = None
        near[0] = None
    return tuple(whole), tuple(near)


def broadcasts(load: Load, comprehension: Comprehension) -> bool:
    """Whether an operand is read by broadcasting: aligned right, at 0 if its extent is 1."""
    skip = len(comprehension.axes) - len(load.indices)
    return skip >= 0 and all(
        (i is ZERO and e is ONE)
        or (i is comprehension.axes[skip + d] and e is comprehension.out.shape[skip + d])
        for d, (i, e) in enumerate(zip(load.indices, load.tensor.shape, strict=True))
    )


def covers(loads: Iterable[Load], comprehension: Comprehension) -> bool:
    """Whether the operands' shapes broadcast to the output's."""
    n = len(comprehension.axes)
    wide = {n - len(x.indices) + d for x in loads for d, i in enumerate(x.indices) if i is not ZERO}
    full = max((len(x.indices) for x in loads), default=0) == n
    return full and all(e is ONE or d in wide for d, e in enumerate(comprehension.out.shape))


def axis_of(load: Load, comprehension: Comprehension) -> int | None:
    """The output's axis along which a vector is read."""
    if len(load.indices) != 1:
        return None
    (poly,) = load.indices
    at = [
        d
        for d, (a, e) in enumerate(zip(comprehension.axes, comprehension.out.shape, strict=True))
        if poly is a and e is load.tensor.shape[0]
    ]
    return at[0] if at else None
