"""Elementwise operators of integers that are computed by bits.

    (x ^ (x >> 31)) - (x >> 31) = abs(x)        ~x + 1 = -x        (x ^ y) + 2 * (x & y) = x + y

Each operator with as many operands is proposed whose formula is proved equal by bit-vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proofs.elements.bit_vectors import has_bit_operations, proved_by_bits
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import INT_DTYPES, Int, as_int
from . import binary, unary
from ._elementwise import Ops, instantiate
from ._scalar import Scalar, broadcasts, covers, scalar
from ._template import Template, learn

_NAMES = frozenset({"abs", "sign", "negative", "bitwise_not", "add", "subtract", "maximum",
                    "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"})  # fmt: skip
OPS = Ops(*(op for op in (*unary.OPS, *binary.OPS) if op.name.rpartition(".")[2] in _NAMES))

MATCHES = [
    Matches("relax.bitwise_and", ("int32[2, n]", "int32[2, n]")),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "int32"), out: T.Buffer((4,), "int32")):
    for i in range(4):
        out[i] = """

REFUSES = [
    Refuses("the sign's bits are added", _HEAD + "(x[i] ^ (x[i] >> 31)) + (x[i] >> 31)\n"),
    Refuses("the sign of half the bits", _HEAD + "(x[i] ^ (x[i] >> 15)) - (x[i] >> 15)\n"),
    Refuses("the complement plus two", _HEAD + "T.bitwise_not(x[i]) + 2\n"),
]


@recogniser("bits", precedence=125, ops=())
def bits(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match ``out[y] = f(x[y], …)`` by bits, where f is the formula of one of `OPS`."""
    (definition, *others) = expression.outputs
    body = definition.body
    if others or not isinstance(body, Int) or definition.out.dtype not in INT_DTYPES:
        return Refusal("the output is not one tensor of int32 or int64")
    if not has_bit_operations(body):
        return Refusal("nothing is combined by bits")
    formula = scalar(body)
    if formula.reason or not formula.loads or not covers(formula.loads, definition):
        return Refusal(formula.reason or "the operands are not read by broadcasting")
    if not all(broadcasts(load, definition) for load in formula.loads):
        return Refusal("the operands are not read by broadcasting")
    return list(_proved(definition, body, formula)) or Refusal("no operator has these bits")


def _proved(definition: OutputDefinition, body: Int, formula: Scalar) -> Iterator[Proposal]:
    """The operators whose formula is equal for all operands."""
    dtype = definition.out.dtype
    for op in OPS:
        if len(op.operands) != len(formula.loads) or dtype not in op.types:
            continue
        template = learn(op, dtype)
        if not isinstance(template, Template):
            continue
        for loads in permutations(formula.loads):
            filled = instantiate(template.body, dict(zip(template.operands, loads, strict=True)))
            proved = proved_by_bits(as_int(filled), body)
            if proved is None:
                return  # the next one would take as long
            if proved:
                yield Proposal(op.name, tuple(load.tensor.position for load in loads), {})
                break
