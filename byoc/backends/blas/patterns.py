"""Patterns of OpenBLAS: a product, perhaps of a permuted operand, then elementwise operators."""

from __future__ import annotations

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ...patterns.extents.symbolic_shapes import same_shape, spread
from ...patterns.pattern import Node, Pattern, PatternStep, one
from ...patterns.suggest import Unmet, cast
from ..common.epilogue import BINARY, CALLED, UNARY

#: The highest rank of a tensor.
MOST = 8
#: The largest number of operators after a product.
LONGEST = 12


def floating(node: Node) -> Unmet | None:
    """All tensors are float32, or all float64."""
    dtype = node.result.dtype
    if dtype not in ("float32", "float64"):
        reason = f"the dtype is {dtype}, expected float32 or float64"
        return Unmet(reason, cast(dtype, "float32"))
    for value in node.operands:
        if value.dtype != dtype:
            reason = f"an operand is {value.dtype}, expected {dtype} as in the result"
            return Unmet(reason, cast(value.dtype, dtype))
    return None


def matrices(node: Node) -> str | None:
    ranks = [v.rank for v in node.operands]
    if any(not 2 <= r <= MOST for r in ranks):
        return f"the operands have rank {' and '.join(map(str, ranks))}, expected 2 to {MOST}"
    return None


def innermost(node: Node) -> str | None:
    """permute_dims: the last axis stays among the last two, since BLAS needs one stride of 1."""
    (value,) = node.operands
    axes = order(node.info.attrs["axes"], value.rank)
    if not 2 <= value.rank <= MOST or value.rank - 1 not in axes[-2:]:
        return f"axes is {axes}, the last axis must stay among the last two"
    return None


def order(axes: object, rank: int) -> list[int]:
    """The axes of a permutation; by default all of them, reversed."""
    if not isinstance(axes, (list, tuple)):
        return list(reversed(range(rank)))
    return [int(a) % rank for a in axes]


def follows(node: Node) -> str | None:
    """Elementwise over the chain; other operands broadcast to it."""
    assert node.chain is not None
    name = node.info.name
    if not same_shape(node.result.shape, node.chain.shape):
        return f"{name} broadcasts the value that it follows"
    for value in node.others:
        if spread(value.shape, node.result.shape) is None:
            return f"an operand of shape {value.shape} does not broadcast"
    return None


#: Other backends, and schedules, compute the functions that are called in vectors.
POST = PatternStep(frozenset((*UNARY, *BINARY)) - {*CALLED}, (floating, follows), 0, LONGEST)
PRODUCTS = ("relax.matmul", TRANSPOSED_MATMUL)
PRODUCT = one(PRODUCTS, floating, matrices)
PATTERNS = (
    Pattern("matmul", PRODUCT, POST),
    Pattern("permuted", one("relax.permute_dims", floating, innermost), PRODUCT, POST),
)
