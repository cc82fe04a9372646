"""Certify a proposal, or say why not.

The proposed op is built again from its name and attributes and legalised; it is right if what comes
out is the PrimFunc itself, or lifts to a comprehension proved equal to the PrimFunc's. So the
certificate depends on the lifter, the prover and TVM's own legalisation, and on no recogniser.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from .build import NotBuilt, rebuild
from .equal import Different, Proof, prove_equal
from .from_tir import Unliftable
from .lift import Lifted, lift
from .op_info import Certificate, Proposal, Refusal
from .rewrite import subterms
from .term import Reduce, Term, Var


def certify(p: Proposal, lifted: Lifted, func: Any) -> Certificate | Refusal:
    """The certificate of a proposal for a PrimFunc that was lifted.

    ``func`` is None if the comprehension is over other buffers than the PrimFunc's own.
    """
    try:
        built = rebuild(p, lifted)
    except NotBuilt as e:
        return Refusal(str(e), p.name)
    if func is not None and built.params == lifted.params and structurally_equal(built.func, func):
        return Certificate("rebuilt", exact=True, assumptions=_sizes(lifted))
    try:
        other = lift(built.func, built.params)
    except Unliftable as e:
        return Refusal(f"the op's own lowering was not understood: {e}", p.name)
    proof = Proof()
    if len(other.outputs) != len(lifted.outputs):
        return Refusal("the op has another number of outputs", p.name)
    for mine, theirs in zip(lifted.outputs, _aligned(other, lifted), strict=True):
        try:
            part = prove_equal(mine.body, theirs)
        except Different as e:
            return Refusal(f"its compute differs: {e}", p.name)
        proof.obligations += part.obligations
        proof.reassociated |= part.reassociated or _reduces(mine.body, "add", "mul")
        proof.finite |= part.finite
        proof.ordered |= part.ordered or _reduces(mine.body, "min", "max")
    return Certificate(
        "proved",
        exact=not (proof.reassociated or proof.finite or proof.ordered),
        assumptions=(*_sizes(lifted), *_flags(proof)),
        obligations=tuple(proof.obligations),
    )


def _aligned(other: Lifted, lifted: Lifted) -> list[Term]:
    """Bodies of the other's outputs in the order of ours."""
    by_tensor = {c.out: c.body for c in other.outputs}
    return [by_tensor[c.out] for c in lifted.outputs]


def structurally_equal(a: Any, b: Any) -> bool:
    """Equal bodies and parameters; function attributes and names do not count."""
    return bool(tvm_ffi.structural_equal(_bare(a), _bare(b), map_free_vars=True))


def _bare(func: Any) -> Any:
    return tirx.PrimFunc(func.params, func.body)


def _sizes(lifted: Lifted) -> tuple[str, ...]:
    symbolic = any(
        isinstance(p, Var) or any(e.const is None for e in p.shape) for p in lifted.params
    )
    return ("symbolic dimensions are at least 1",) if symbolic else ()


def _flags(proof: Proof) -> tuple[str, ...]:
    out = ()
    if proof.reassociated:
        out += ("floating-point sums equal up to reassociation",)  # type: ignore[assignment]
    if proof.finite:
        out += ("operands are finite where padding multiplies them by 0",)  # type: ignore[assignment]
    if proof.ordered:
        out += ("no operand of a minimum or maximum is NaN, nor zeros of both signs",)  # type: ignore[assignment]
    return out


def _reduces(t: Term, *ops: str) -> bool:
    """Whether a floating-point reduction is in it: its order is not part of the lifted form."""
    return any(isinstance(s, Reduce) and s.op in ops and "float" in s.dtype for s in subterms(t))
