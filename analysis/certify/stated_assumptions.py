"""What a certificate says that an answer assumes: about inputs, and about values in a proof."""

from __future__ import annotations

from ..lifting.effects.tensor_expression import TensorExpression
from ..proofs.proof import Proof
from ..terms.term import Reduce, Term, Var
from ..terms.traversal import subterms
from .assumptions import data_assumptions


def input_assumptions(lifted: TensorExpression) -> tuple[str, ...]:
    """Return what an answer assumes about its inputs, and about stores at the same time."""
    symbolic = any(
        isinstance(param, Var) or any(e.const is None for e in param.shape)
        for param in lifted.params
    )
    alone = {e.atom for t in lifted.params if not isinstance(t, Var) for e in t.shape}
    factors = [p for p in lifted.params if isinstance(p, Var) and p.kind == "size"]
    assumptions = {
        "symbolic dimensions are at least 1": symbolic,
        "scalars that are factors of a dimension are at least 1": any(
            p not in alone for p in factors
        ),
        "no two iterations of a parallel loop, and no two threads, store in one element": (
            lifted.races
        ),
        "what T.assume says holds": lifted.promises,
    }
    stated = tuple(text for text, flag in assumptions.items() if flag)
    return (*stated, *lifted.assumed, *data_assumptions(c.body for c in lifted.outputs))


def proof_assumptions(proof: Proof) -> tuple[str, ...]:
    """Return what a proof assumes about values."""
    assumptions = {
        "floating-point sums equal up to reassociation": proof.reassociated,
        "equal in real arithmetic, where every value on the way is finite": proof.rounded,
        "operands are finite where padding multiplies them by 0": proof.finite,
        "no operand of a minimum or maximum is NaN, nor zeros of both signs": proof.ordered,
        "the first element is above the lowest number, or below the highest": proof.above,
    }
    return tuple(text for text, flag in assumptions.items() if flag)


def regroups(term: Term, *ops: str) -> bool:
    """Return whether a floating-point reduction occurs: tensor expressions ignore its order."""
    return any(isinstance(s, Reduce) and s.op in ops and "float" in s.dtype for s in subterms(term))
