"""Products of matrices with their epilogues: d = act(α a·b + bias + residual).

Shared by cuBLASLt and CUTLASS: the patterns, and the product that a region computes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....analysis.proposal.proposal import Constant
from ...backend.region import Call, Region, Tensor
from ...patterns.pattern import Condition, Node, Pattern, maybe, one
from ...patterns.symbolic_shapes import same, same_shape
from ..common.region_source import literal
from .dtypes import typed

#: Dtypes of the operands and the result of a product.
TYPES = frozenset([("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
                   ("float16", "float32"), ("bfloat16", "float32")])  # fmt: skip


#: Products, of operands that are perhaps stored transposed.
PRODUCTS = ("relax.matmul", TRANSPOSED_MATMUL)


def factors(node: Node) -> str | None:
    """Two operands of one dtype, and a result dtype that the libraries support for them."""
    first, second = node.operand(0), node.operand(1)
    if first is None or second is None or first is second:
        return "the operands are not two tensors"
    if first.rank < 2 or second.rank < 2:
        return f"the operands have rank {first.rank} and {second.rank}, expected at least 2"
    if first.dtype != second.dtype or (first.dtype, node.result.dtype) not in TYPES:
        return (f"the dtypes are {first.dtype}, {second.dtype} and {node.result.dtype}, expected "
                "float32, float16 or bfloat16")  # fmt: skip
    return batches(node)


def batches(node: Node) -> str | None:
    """Each operand has the batch axes of the result, or none: the libraries take one stride."""
    outer = node.result.shape[:-2]
    for k in (0, 1):
        value = node.operand(k)
        assert value is not None
        batch = value.shape[:-2]
        if not _ones(batch) and not same_shape(batch, outer):
            return f"an operand of shape {value.shape} is broadcast along a part of the batch"
    return None


def by_literal(node: Node) -> str | None:
    """The chain is multiplied or divided by a number."""
    first = node.operand(0) is node.chain
    has_scalar = "x2" in node.info.attrs or (
        len(node.info.operands) == 2 and isinstance(node.info.operands[1], Constant)
    )
    return None if first and has_scalar else "it is not a number that the chain is scaled by"


def row(node: Node) -> str | None:
    """The other operand has one value for each column."""
    if (reason := sums(node)) is not None:
        return reason
    (operand,) = node.others
    if (
        operand.rank
        and same(operand.shape[-1], node.result.shape[-1])
        and _ones(operand.shape[:-1])
    ):
        return None
    return _neither(operand.shape)


def full_size(node: Node) -> str | None:
    """The other operand has the result's shape."""
    if (reason := sums(node)) is not None:
        return reason
    (operand,) = node.others
    if same_shape(operand.shape, node.result.shape):
        return None
    return _neither(operand.shape)


def _neither(shape: Sequence[object]) -> str:
    return (f"an operand of shape {tuple(shape)} is added, expected one value per column, or "
            "the result's shape")  # fmt: skip


def sums(node: Node) -> str | None:
    """The chain plus another tensor of its dtype; the result has the chain's shape."""
    assert node.chain is not None
    if len(node.others) != 1 or not same_shape(node.result.shape, node.chain.shape):
        return "it is not a sum of the chain and another tensor"
    return typed(node)


def swapped(node: Node) -> str | None:
    """permute_dims swaps the last two axes."""
    value, axes = node.operand(0), node.info.attrs.get("axes")
    if value is None or value.rank < 2:
        return "the operand is not a matrix"
    order = [int(a) % value.rank for a in axes] if axes is not None else [*range(value.rank)][::-1]
    expected = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
    return None if order == expected else f"axes is {order}, expected {expected}"


def widened(node: Node) -> str | None:
    """A cast from half to single precision."""
    value = node.operand(0)
    if (
        value is not None
        and value.dtype in ("float16", "bfloat16")
        and node.result.dtype == "float32"
    ):
        return None
    return "it is not a cast of float16 or bfloat16 to float32"


def patterns(
    activations: Collection[str], *extra: Condition, both: bool = True, casts: bool = False
) -> tuple[Pattern, ...]:
    """Patterns of a product, perhaps of a transposed operand, and its epilogue.

    ``both``: bias and residual, else one of them. ``casts``: a product of halves may be cast to
    float32 first, in which it is summed anyway.
    """
    scale = maybe(("relax.multiply", "relax.divide"), typed, by_literal)
    after = maybe(activations, typed)
    bias, residual = ("relax.add", row), ("relax.add", full_size)
    out = []
    for name, start, ops in (
        ("matmul", (), PRODUCTS),
        ("linear", (one("relax.permute_dims", swapped),), PRODUCTS[:1]),
    ):
        cast = (maybe("relax.astype", widened),) if casts else ()
        anchor = (*start, one(ops, factors, *extra), *cast, scale)
        more = (maybe(*residual),) if both else ()
        out.append(Pattern(name, *anchor, maybe(*bias), *more, after))
        optional_bias = (maybe(*bias),) if both else ()
        out.append(Pattern(f"{name}_residual", *anchor, one(*residual), *optional_bias, after))
    return tuple(out)


@dataclass(frozen=True)
class Gemm:
    """A region as one product. ``turned``: whether an operand's last two axes are swapped.

    ``merge``: the batch is joined with the rows, since the second operand has no batch.
    """

    a: Tensor
    b: Tensor
    turned: tuple[bool, bool]
    merge: bool
    alpha: float
    bias: Tensor | None
    residual: Tensor | None
    activation: str | None
    cast: bool = False

    @property
    def rounds(self) -> list[str]:
        """How it rounds differently from its operators one by one."""
        half = self.a.dtype != "float32"
        end = f"never to {self.a.dtype}" if self.cast else "at the end"
        return [f"products of {self.a.dtype} are added in float32, rounded {end}"] * half


def gemm(region: Region) -> Gemm:
    """The product that a region of these patterns computes."""
    product = region.find(*PRODUCTS)
    assert product is not None
    operands = list(product.operands)
    turned = [bool(t) for t in product.attrs.get("transposed", (False, False))]
    first = region.calls[0]
    if first is not product:
        k = next(k for k, o in enumerate(operands) if isinstance(o, Tensor) and o.source == "call")
        operands[k], turned[k] = first.operands[0], True
    a, b = operands
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    after = region.calls[region.calls.index(product) + 1 :]
    alpha, activation = 1.0, None
    added: list[Call] = []
    for call in after:
        number = literal(call, "x2")
        if call.op == "relax.add":
            added.append(call)
        elif call.op == "relax.astype":
            continue
        elif number is None:
            activation = call.op
        else:
            alpha = alpha * number if call.op == "relax.multiply" else alpha / number
    bias, residual = added_to(added)
    merge = len(a.shape) > 2 and _ones(b.shape[:-2]) and not turned[0]
    cast = any(c.op == "relax.astype" for c in after)
    return Gemm(a, b, (turned[0], turned[1]), merge, alpha, bias, residual, activation, cast)


def added_to(calls: Sequence[Call]) -> tuple[Tensor | None, Tensor | None]:
    """The bias and the residual: the first operand with the result's shape is the residual."""
    bias: Tensor | None = None
    residual: Tensor | None = None
    for call in calls:
        operand = other_operand(call)
        if residual is None and same_shape(operand.shape, call.result.shape):
            residual = operand
        else:
            bias = operand
    return bias, residual


def other_operand(call: Call) -> Tensor:
    """The operand that is not the result of the call before."""
    before = call.result.index - 1
    (operand,) = (
        o
        for o in call.operands
        if isinstance(o, Tensor) and (o.source, o.index) != ("call", before)
    )
    return operand


def _ones(shape: Sequence[object]) -> bool:
    return all(isinstance(e, int) and e == 1 for e in shape)
