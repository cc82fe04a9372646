"""Certify a proposal, or say why not.

The proposed op is built again from its name and attributes and legalised; it is right if what comes
out is the PrimFunc itself, or lifts to a comprehension proved equal to the PrimFunc's. So the
certificate depends on the lifter, the prover and TVM's own legalisation, and on no recogniser.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import tirx

from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.lift import lift
from ..lifting.tir.from_tir import Unliftable
from ..proofs.equal import Proof, prove_equal
from ..proofs.pairing import Different
from ..proposal.build import NotBuilt, Rebuilt, rebuild
from ..proposal.proposal import Proposal
from ..real import TooLarge, real
from ..results.op_info import ASSUMED, Certificate, Refusal
from ..terms.term import Reduce, Term, Var
from ..terms.traversal import subterms
from ..terms.work import spend
from .assumptions import CANCELS, partial, simplified
from .sampled import Unequal, compare
from .structural_equality import structurally_equal

#: What legalising and lifting an operator costs of a question's budget, and asking all recognisers.
CERTIFY, PROPOSE = 300, 100


def certify(
    p: Proposal, lifted: TensorExpression, func: Any, *, tested: bool = False, rounded: bool = False
) -> Certificate | Refusal:
    """The certificate of a proposal for a PrimFunc that was lifted.

    ``func`` is None if the comprehension is over other buffers than the PrimFunc's own, or gives
    by ``over(params)`` the PrimFunc over parameters in the order of the op's lowering. With
    ``tested``, what is not proved is compared at random points; with ``rounded``, both are compared
    in real arithmetic.
    """
    spend(CERTIFY)
    try:
        built = rebuild(p, lifted)
    except NotBuilt as e:
        return Refusal(str(e), p.name)
    return _staged(_compared(p, lifted, func, built, tested, rounded), lifted, func, built)


def lowers_to(p: Proposal, lifted: TensorExpression, func: Any) -> Certificate | Refusal:
    """The certificate ``rebuilt``, or that the op's lowering is another PrimFunc."""
    try:
        built = rebuild(p, lifted)
    except NotBuilt as e:
        return Refusal(str(e), p.name)
    return _staged(_rebuilt(p, lifted, func, built), lifted, func, built)


def _staged(
    found: Certificate | Refusal, lifted: TensorExpression, func: Any, built: Rebuilt
) -> Certificate | Refusal:
    """With the number of buffers that the op's lowering writes."""
    if isinstance(found, Refusal):
        return found
    same = found.kind == "rebuilt" and isinstance(func, tirx.PrimFunc)
    return replace(found, stages=(lifted.stages if same else 0) or stages(built.func))


def stages(func: Any) -> int:
    """The number of buffers that a PrimFunc writes."""
    written: set[Any] = set()
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: written.add(s.buffer)))
    return len(written)


def _compared(
    p: Proposal, lifted: TensorExpression, func: Any, built: Rebuilt, tested: bool, rounded: bool
) -> Certificate | Refusal:
    same = _rebuilt(p, lifted, func, built)
    if isinstance(same, Certificate):
        return same
    try:
        other = lift(built.func, built.params)
    except Unliftable as e:
        return Refusal(f"the op's own lowering was not understood: {e}", p.name)
    if other.races != lifted.races:
        return Refusal("not both have parallel iterations that may store in one element", p.name)
    if len(other.outputs) != len(lifted.outputs):
        return Refusal("the op has another number of outputs", p.name)
    found = _proved(p, lifted, _aligned(other, lifted), rounded)
    if isinstance(found, Refusal) and tested:
        return _sampled(p, lifted, _aligned(other, lifted))
    return found


def _rebuilt(
    p: Proposal, lifted: TensorExpression, func: Any, built: Rebuilt
) -> Certificate | Refusal:
    given = _over(func, lifted.params, built.params)
    if given is None or not structurally_equal(built.func, given):
        return Refusal("it lowers to another PrimFunc", p.name)
    return Certificate("rebuilt", exact=True, assumptions=given_of(lifted))


def _over(func: Any, params: tuple[Any, ...], wanted: tuple[Any, ...]) -> Any:
    if func is None or not isinstance(func, tirx.PrimFunc):
        return None if func is None else func.over(wanted)
    return func if wanted == params else None


def _proved(
    p: Proposal, lifted: TensorExpression, bodies: list[Term], rounded: bool
) -> Certificate | Refusal:
    proof = Proof(rounded=rounded)
    for mine, theirs in zip(lifted.outputs, bodies, strict=True):
        try:
            form = real if rounded else itself
            part = prove_equal(form(mine.body), form(theirs))
        except TooLarge as e:
            return Refusal(str(e), p.name)
        except Different as e:
            return Refusal(f"its compute differs: {e}", p.name)
        proof.obligations += part.obligations
        proof.reassociated |= part.reassociated or regroups(mine.body, "add", "mul")
        proof.finite |= part.finite
        proof.ordered |= part.ordered or regroups(mine.body, "min", "max")
    taken = simplified(c.body for c in lifted.outputs)
    proof.reassociated |= CANCELS in taken
    return Certificate(
        "real" if rounded else "proved",
        exact=not (proof.reassociated or proof.finite or proof.ordered or rounded),
        assumptions=(*ASSUMED, *given_of(lifted), *taken, *flags(proof)),
        obligations=tuple(proof.obligations),
    )


def itself(t: Term) -> Term:
    return t


def _sampled(p: Proposal, lifted: TensorExpression, bodies: list[Term]) -> Certificate | Refusal:
    points = 0
    for mine, theirs in zip(lifted.outputs, bodies, strict=True):
        try:
            points += compare(mine, theirs)
        except Unequal as e:
            return Refusal(f"its compute differs: {e}", p.name)
    told = f"equal at {points} random points; not proved"
    return Certificate("tested", exact=False, assumptions=(*ASSUMED, *given_of(lifted), told))


def _aligned(other: TensorExpression, lifted: TensorExpression) -> list[Term]:
    """Bodies of the other's outputs in the order of ours."""
    by_tensor = {c.out: c.body for c in other.outputs}
    return [by_tensor[c.out] for c in lifted.outputs]


def given_of(lifted: TensorExpression) -> tuple[str, ...]:
    symbolic = any(
        isinstance(p, Var) or any(e.const is None for e in p.shape) for p in lifted.params
    )
    told = {
        "symbolic dimensions are at least 1": symbolic,
        "no two iterations of a parallel loop store in one element": lifted.races,
        "what T.assume says holds": lifted.promises,
    }
    stated = tuple(text for text, flag in told.items() if flag)
    return (*stated, *partial(c.body for c in lifted.outputs))


def flags(proof: Proof) -> tuple[str, ...]:
    told = {
        "floating-point sums equal up to reassociation": proof.reassociated,
        "equal in real arithmetic, where every value on the way is finite": proof.rounded,
        "operands are finite where padding multiplies them by 0": proof.finite,
        "no operand of a minimum or maximum is NaN, nor zeros of both signs": proof.ordered,
    }
    return tuple(text for text, flag in told.items() if flag)


def regroups(t: Term, *ops: str) -> bool:
    """Whether a floating-point reduction is in it: its order is not part of the lifted form."""
    return any(isinstance(s, Reduce) and s.op in ops and "float" in s.dtype for s in subterms(t))
