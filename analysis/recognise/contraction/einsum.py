"""Sums of products other than matrix products, and diagonals: einsum.

out[i, j, l] = Σ_k x1[i, k] * x2[j, k] * x3[l, k]; out[i] = x[i, i]; out[i, j, k] = x1[i, j] * x2[k]
"""

from __future__ import annotations

from collections.abc import Sequence

from ...composites.products import TRANSPOSED_MATMUL
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE, ZERO, CallTerm, Int, Load, Term, Var
from .._forms.sums_of_products import Combined, Product, bare, only, product

OP = "relax.einsum"
MATCHES = [
    Matches(
        OP,
        ("float32[4, 5]", "float32[6, 5]"),
        {"subscripts": "ik,jk->ij"},
        expect={"transposed": (False, True)},
        name=TRANSPOSED_MATMUL,
    ),
    Matches(OP, ("float32[4, 4]",), {"subscripts": "aa->a"}),
    Matches(OP, ("float16[4, 4]",), {"subscripts": "aa->"}),
    Matches(OP, ("int32[n, n, 5]",), {"subscripts": "aab->ab"}),
    Matches(OP, ("float32[n, 4]", "float32[5]"), {"subscripts": "ab,c->abc"}),
    Matches(OP, ("int32[3, 4]", "int32[5]"), {"subscripts": "ab,c->abc"}),
    Matches(OP, ("float32[1, 4]", "float32[5, 3, 4]"), {"subscripts": "ab,cdb->cd"}),
]

REFUSES = [
    Refuses(
        "a transpose under a new dimension",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 5), "float32"), out: T.Buffer((3, 5, 4), "float32")):
    for i, j, k in T.grid(3, 5, 4):
        with T.sblock("c"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            out[vi, vj, vk] = x[vk, vj]
""",
    ),
    Refuses(
        "the diagonal next to the main one",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((3,), "float32")):
    for i in range(3):
        with T.sblock("c"):
            vi = T.axis.spatial(3, i)
            out[vi] = x[vi, vi + 1]
""",
    ),
    Refuses(
        "half of a diagonal",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.sblock("c"):
            vi = T.axis.spatial(2, i)
            out[vi] = x[vi, vi]
""",
    ),
]


@recogniser("einsum", precedence=635, ops=(OP,))
def einsum(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Use one letter for each variable, and operands in the order of the parameters."""
    if len(expression.outputs) != 1:
        return Refusal("an einsum has one output")
    factors = _product(expression.outputs[0].body)
    if factors is None or factors.guards:
        return Refusal("the compute is not a sum of products")
    loads = sorted(factors.loads, key=lambda load: load.tensor.position)
    if not factors.reduce.axes and all(_aligned(x, expression.outputs[0].axes) for x in loads):
        return Refusal("nothing is summed and all operands are broadcast")
    shapes = [*(x.tensor.shape for x in loads), ()]  # a unit dimension of the output has no letter
    texts = _texts([*(x.indices for x in loads), expression.outputs[0].axes], shapes)
    if texts is None:
        return Refusal("an operand is not read at plain coordinates", repr(loads))
    if any(x.tensor.dtype != expression.outputs[0].out.dtype for x in loads):
        return Refusal("an operand is converted")
    if not set(texts[-1]) <= set("".join(texts[:-1])):  # TVM crashes on such subscripts
        return Refusal("no operand has some coordinate of the output")
    operands = tuple(x.tensor.position for x in loads)
    return [Proposal(OP, operands, {"subscripts": f"{','.join(texts[:-1])}->{texts[-1]}"})]


def _product(term: Term) -> Product | None:
    """A sum of products, a product, or a load."""
    return product(term) or _factors(bare(term))


def _factors(term: Term) -> Product | None:
    loads = term.args if isinstance(term, CallTerm) and term.op == "mul" else (term,)
    factors = tuple(x for x in map(bare, loads) if isinstance(x, Load))
    return Product(Combined((), term, ZERO), (), factors) if len(factors) == len(loads) else None


def _aligned(load: Load, axes: tuple[Int, ...]) -> bool:
    """Whether an operand is broadcast like one of an elementwise operator."""
    return load.indices == axes[len(axes) - len(load.indices) :]


def _texts(
    indices: Sequence[tuple[Int, ...]], shapes: Sequence[tuple[Int, ...]]
) -> list[str] | None:
    """The subscripts of each operand, or None if one is not a variable.

    A dimension of extent 1 has a letter of its own, over which the operand is summed.
    """
    names: dict[Var | tuple[int, int], str] = {}
    subscripts = []
    for operand, (index, shape) in enumerate(zip(indices, shapes, strict=True)):
        text = ""
        for d, place in enumerate(index):
            name = only(place)
            is_unit = place is ZERO and shape[d : d + 1] == (ONE,)
            if (name is None and not is_unit) or len(names) > 20:
                return None
            text += names.setdefault(name or (operand, d), chr(ord("a") + len(names)))
        subscripts.append(text)
    return subscripts
