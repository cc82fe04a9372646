"""Certify a proposal, or say why it cannot be certified.

The proposed operator is built from its name and attributes and legalised. It is right if the result
is the PrimFunc itself, or lifts to a tensor expression that is proved equal to the PrimFunc's. So
the certificate depends on the lifter, the prover and TVM's own legalisation, and on no recogniser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import tirx

from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.lift import lift
from ..lifting.tir.operations import cast
from ..lifting.tir.unliftable import Unliftable
from ..proofs.equal import prove_equal
from ..proofs.pairing import Different
from ..proofs.proof import Obligation, Proof
from ..proposal.build import Rebuilt, rebuild
from ..proposal.call_op import NotBuilt
from ..proposal.proposal import Proposal
from ..proposal.tvm_rules import rule_assumptions
from ..real import AT_PLACES, TooLarge, equal_at_places, real
from ..results.op_info import ASSUMED, Certificate, Refusal
from ..terms.term import CallTerm, Int, TensorVar, Term, Var, as_int
from ..terms.term.work_budget import spend
from ..terms.traversal import map_loads
from ..terms.traversal import rebuild as rebuild_term
from .assumed_sizes import assumed, over_sizes, over_values
from .assumptions import CANCELS, simplifier_assumptions
from .distinct_indices import DISTINCT, stored_once
from .sampled import Unequal, compare
from .stated_assumptions import input_assumptions, proof_assumptions, regroups
from .structural_equality import structurally_equal

#: The cost of legalising and lifting an operator, and of calling all recognisers, in the budget.
CERTIFY, PROPOSE = 300, 100


@dataclass(frozen=True, repr=False)
class Misfit(Refusal):
    """The refusal of an operator that cannot have these operands: any other one says more."""


def certify(
    proposal: Proposal,
    lifted: TensorExpression,
    func: Any,
    *,
    tested: bool = False,
    rounded: bool = False,
) -> Certificate | Refusal:
    """Return the certificate of a proposal for a lifted PrimFunc, or a refusal.

    Args:
        proposal: The proposal.
        lifted: What the PrimFunc computes.
        func: The PrimFunc; None if the expression is over other buffers than the PrimFunc's; or an
            object whose ``over(params)`` returns the PrimFunc over parameters in the lowering's
            order.
        tested: Compare terms that are not proved equal at random points.
        rounded: Compare in real arithmetic.
    """
    spend(CERTIFY)
    if proposal.sizes:
        return _for_sizes(proposal, lifted, tested=tested, rounded=rounded)
    try:
        built = rebuild(proposal, lifted)
    except NotBuilt as error:
        return Misfit(str(error), proposal.name)
    # Results of different extern functions cannot be told apart at random points.
    tested = tested and not lifted.externs
    certificate = _compared(proposal, lifted, func, built, tested, rounded)
    return _staged(certificate, proposal, lifted, func, built)


def _for_sizes(
    proposal: Proposal, lifted: TensorExpression, *, tested: bool, rounded: bool
) -> Certificate | Refusal:
    """The certificate where some sizes are functions of others."""
    attrs = {k: over_values(v, proposal.sizes) for k, v in proposal.attrs.items()}
    ours = over_sizes(lifted, proposal.sizes)
    inner = replace(proposal, sizes={}, attrs=attrs)
    certificate = certify(inner, ours, None, tested=tested, rounded=rounded)
    if isinstance(certificate, Refusal):
        return certificate
    sizes = assumed(proposal.sizes)
    return replace(certificate, sizes=sizes, assumptions=(*certificate.assumptions, *sizes))


def lowers_to(proposal: Proposal, lifted: TensorExpression, func: Any) -> Certificate | Refusal:
    """Return a certificate ``rebuilt``, or a refusal if the operator lowers to another PrimFunc."""
    if proposal.sizes:
        return Refusal("it assumes a relation of sizes", proposal.name)
    try:
        built = rebuild(proposal, lifted)
    except NotBuilt as error:
        return Refusal(str(error), proposal.name)
    return _staged(_rebuilt(proposal, lifted, func, built), proposal, lifted, func, built)


def _staged(
    certificate: Certificate | Refusal,
    proposal: Proposal,
    lifted: TensorExpression,
    func: Any,
    built: Rebuilt,
) -> Certificate | Refusal:
    """The certificate with what a rule of TVM assumes, and the buffers that the lowering writes."""
    if isinstance(certificate, Refusal):
        return certificate
    if assumed_by_rule := rule_assumptions(proposal, lifted):
        assumptions = (*certificate.assumptions, *assumed_by_rule)
        certificate = replace(certificate, assumptions=assumptions)
    if lifted.externs:
        return _on_documentation(certificate, lifted)
    same = certificate.kind == "rebuilt" and isinstance(func, tirx.PrimFunc)
    return replace(
        certificate, stages=(lifted.stages if same else 0) or count_written_buffers(built.func)
    )


def _on_documentation(certificate: Certificate, lifted: TensorExpression) -> Certificate:
    """The certificate of a PrimFunc that calls extern functions."""
    functions = dict.fromkeys(call.function for call in lifted.externs)
    assumed = tuple(f"the extern function {name} computes what TVM documents" for name in functions)
    return replace(
        certificate, kind="extern", assumptions=(*certificate.assumptions, *assumed), stages=1
    )


def count_written_buffers(func: Any) -> int:
    """Return the number of buffers that a PrimFunc writes."""
    written: set[Any] = set()
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda stmt: written.add(stmt.buffer)))
    return len(written)


def _compared(
    proposal: Proposal,
    lifted: TensorExpression,
    func: Any,
    built: Rebuilt,
    tested: bool,
    rounded: bool,
) -> Certificate | Refusal:
    same = _rebuilt(proposal, lifted, func, built)
    if isinstance(same, Certificate):
        return same
    try:
        lowering = lift(built.func, built.params, externs=bool(lifted.externs))
    except Unliftable as error:
        return Misfit(f"the operator's own lowering cannot be lifted: {error}", proposal.name)
    apart = lifted.races and lifted.distinct
    if lowering.races != lifted.races and not apart:
        return Refusal(
            "only one of the two has parallel iterations that may store to one element",
            proposal.name,
        )
    if len(lowering.outputs) != len(lifted.outputs):
        return Refusal("the operator has a different number of outputs", proposal.name)
    bodies = _aligned(lowering, lifted, built.scalars)
    certificate = _proved(proposal, lifted, bodies, rounded)
    if isinstance(certificate, Refusal) and apart:
        certificate = _proved_distinct(proposal, lifted, bodies, rounded) or certificate
    if isinstance(certificate, Refusal) and tested:
        return _sampled(proposal, lifted, bodies)
    return certificate


def _rebuilt(
    proposal: Proposal, lifted: TensorExpression, func: Any, built: Rebuilt
) -> Certificate | Refusal:
    original = _over(func, lifted.params, built.params)
    if original is None or not structurally_equal(built.func, original):
        return Refusal("it lowers to a different PrimFunc", proposal.name)
    return Certificate("rebuilt", exact=True, assumptions=input_assumptions(lifted))


def _over(func: Any, params: tuple[Any, ...], order: tuple[Any, ...]) -> Any:
    if func is None or not isinstance(func, tirx.PrimFunc):
        return None if func is None else func.over(order)
    return func if order == params else None


def _proved(
    proposal: Proposal, lifted: TensorExpression, bodies: list[Term], rounded: bool
) -> Certificate | Refusal:
    proof = Proof(rounded=rounded)
    for output, body in zip(lifted.outputs, bodies, strict=True):
        try:
            form = real if rounded else itself
            part = prove_equal(form(output.body), form(body))
        except TooLarge as error:
            return Refusal(str(error), proposal.name)
        except Different as error:  # of the terms; the values may still be equal
            if not rounded or not equal_at_places(output.body, body):
                return Refusal(f"not proved equal: {error}", proposal.name)
            part = Proof([Obligation(AT_PLACES, "enumeration", 0.0)])
        proof.obligations += part.obligations
        proof.reassociated |= part.reassociated or regroups(output.body, "add", "mul")
        proof.finite |= part.finite
        proof.above |= part.above
        proof.ordered |= part.ordered or regroups(output.body, "min", "max")
    assumptions = simplifier_assumptions(c.body for c in lifted.outputs)
    proof.reassociated |= CANCELS in assumptions
    return Certificate(
        "real" if rounded else "proved",
        exact=not (proof.reassociated or proof.finite or proof.ordered or proof.above or rounded),
        assumptions=(*ASSUMED, *input_assumptions(lifted), *assumptions, *proof_assumptions(proof)),
        obligations=tuple(proof.obligations),
    )


def _proved_distinct(
    proposal: Proposal, lifted: TensorExpression, bodies: list[Term], rounded: bool
) -> Certificate | Refusal:
    """The proof if no two stores are into one element, so that each reads the initial value."""
    outputs = tuple(replace(c, body=stored_once(c.body)) for c in lifted.outputs)
    ours = replace(lifted, outputs=outputs)
    certificate = _proved(proposal, ours, [stored_once(b) for b in bodies], rounded)
    if isinstance(certificate, Refusal):
        return certificate
    return replace(certificate, assumptions=(*certificate.assumptions, DISTINCT))


def itself(term: Term) -> Term:
    return term


def _sampled(
    proposal: Proposal, lifted: TensorExpression, bodies: list[Term]
) -> Certificate | Refusal:
    points = 0
    for output, body in zip(lifted.outputs, bodies, strict=True):
        try:
            points += compare(output, body)
        except Unequal as error:
            return Refusal(f"its compute differs: {error}", proposal.name)
    assumption = f"equal at {points} random points; not proved"
    return Certificate(
        "tested", exact=False, assumptions=(*ASSUMED, *input_assumptions(lifted), assumption)
    )


def _aligned(
    lowering: TensorExpression, lifted: TensorExpression, scalars: Mapping[TensorVar, Var]
) -> list[Term]:
    """The bodies of the other expression's outputs in the order of ours, over the scalars."""
    by_tensor = {c.out: c.body for c in lowering.outputs}
    bodies = [by_tensor[c.out] for c in lifted.outputs]
    if not scalars:
        return bodies
    read = frozenset(scalars)
    replaced = (map_loads(b, read, lambda tensor, _: as_int(scalars[tensor])) for b in bodies)
    return [_converted(body) for body in replaced]


def _converted(body: Term) -> Term:
    """The term with conversions of integers as they are lifted, which loads had hidden."""

    def go(term: Term) -> Term:
        new = rebuild_term(term, go)
        if isinstance(new, CallTerm) and new.op == "cast" and isinstance(new.args[0], Int):
            return cast(new.args[0], new.dtype)
        return new

    return go(body)
