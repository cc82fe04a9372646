"""Products of matrices that cuBLASLt and CUTLASS take, and what may follow them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from .....analysis.proposal.proposal import Constant
from .....layout.graph.relax_graph import Op, Value
from ....backend.region import Array
from ....patterns.extents.symbolic_shapes import same, same_shape
from ....patterns.pattern import Condition, Node, Pattern, PatternStep, many, maybe, one
from ..libraries.dtypes import HALVES, of, typed
from .gemm import PRODUCTS, all_ones

#: Dtypes of the operands and the result of a product.
TYPES = frozenset([("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
                   ("float16", "float32"), ("bfloat16", "float32")])  # fmt: skip


def two_tensors(node: Node) -> tuple[Value, Value] | str:
    """Return the operands of a product if they are two matrices or batches of them, or why not."""
    first, second = node.operand(0), node.operand(1)
    if first is None or second is None or first is second:
        return "the operands are not two tensors"
    if first.rank < 2 or second.rank < 2:
        return f"the operands have rank {first.rank} and {second.rank}, expected at least 2"
    return first, second


def factors(node: Node) -> str | None:
    """Two operands of one dtype, and a result dtype that the libraries support for them."""
    pair = two_tensors(node)
    if isinstance(pair, str):
        return pair
    first, second = pair
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
        if not all_ones(batch) and not same_shape(batch, outer):
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
        and all_ones(operand.shape[:-1])
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


#: The products that patterns start with: a name, what stands in front, and the operators.
ANCHORS: tuple[tuple[str, tuple[PatternStep, ...], tuple[str, ...]], ...] = (
    ("matmul", (), PRODUCTS),
    ("linear", (one("relax.permute_dims", swapped),), PRODUCTS[:1]),
)


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
    float32 first, in which it is summed anyway; reshapes may divide and merge rows; and a program
    of halves may compute what follows in float32, with casts between the steps.
    """
    scale = maybe(("relax.multiply", "relax.divide"), typed, by_literal)
    after = maybe(activations, typed)
    bias, residual = ("relax.add", row), ("relax.add", full_size)
    rows = (many("relax.reshape", same_columns),) if casts else ()
    out = []
    for name, start, ops in ANCHORS:
        cast = (maybe("relax.astype", widened),) if casts else ()
        product = (*start, one(ops, factors, *extra))
        anchor = (*product, *cast, scale, *rows)
        more = (maybe(*residual), *rows) if both else ()
        out.append(Pattern(name, *anchor, maybe(*bias), *rows, *more, after, *rows))
        optional_bias = (maybe(*bias), *rows) if both else ()
        out.append(
            Pattern(f"{name}_residual", *anchor, one(*residual), *rows, *optional_bias, after)
        )
        if casts:
            for dtype in HALVES:
                conditions = (*product[-1].conditions, halves(dtype))
                of_halves = (*start, replace(product[-1], conditions=conditions))
                factor = maybe(("relax.multiply", "relax.divide"), dtypes(dtype), by_literal)
                out += rounded(f"{name}_{dtype}", of_halves, (factor,), activations, dtype)
    return tuple(out)


def rounded(
    name: str, product: Sequence[PatternStep], scale: Sequence[PatternStep],
    activations: Collection[str], dtype: str,
) -> list[Pattern]:  # fmt: skip
    """A product and its epilogue in float32, with casts and reshapes between, as halves.

    It ends with a cast, or with an activation of halves, perhaps written as several operators.
    """
    of_dtype = dtypes(dtype)
    between = many(("relax.reshape", "relax.astype"), of_dtype, same_columns)

    def added(fits: Condition) -> PatternStep:
        return PatternStep(frozenset(("relax.add",)), (of_dtype, fits), 0, 1, widened_term)

    narrow = one("relax.astype", of_dtype, narrowed)
    steps = (*product, between, *scale, between, added(exact_row(dtype)), between,
             added(half_term(dtype)), between)  # fmt: skip
    rows = many("relax.reshape", same_columns)
    return [
        Pattern(name, *steps, maybe(activations, of_dtype), narrow, rows),
        Pattern(f"{name}_activated", *steps, one(activations, of(dtype)), rows),
    ]


def dtypes(half: str) -> Condition:
    """Return a condition: all tensors are of a half dtype or float32."""

    def check(node: Node) -> str | None:
        dtypes = sorted({v.dtype for v in node.tensors} - {half, "float32"})
        return f"a tensor is {dtypes[0]}, expected {half} or float32" if dtypes else None

    return check


def halves(half: str) -> Condition:
    """Return a condition: the operands are of a half dtype, the result of it or float32.

    The libraries do not round products of float32 to halves.
    """

    def check(node: Node) -> str | None:
        dtypes = {v.dtype for k in (0, 1) if (v := node.operand(k)) is not None} - {half}
        if not dtypes and node.result.dtype not in (half, "float32"):
            return f"the result is {node.result.dtype}, expected {half} or float32"
        return f"an operand is {dtypes.pop()}, expected {half}" if dtypes else None

    return check


def narrowed(node: Node) -> str | None:
    value = node.operand(0)
    wide = value is not None and value.dtype == "float32" and node.result.dtype in HALVES
    return None if wide else "it is not a cast of float32 to float16 or bfloat16"


def same_columns(node: Node) -> str | None:
    """A reshape divides or merges rows only."""
    value = node.operand(0)
    if node.info.name != "relax.reshape":
        return None
    if value is None or not value.rank or not node.result.rank:
        return "a tensor has no axes"
    if same(value.shape[-1], node.result.shape[-1]):
        return None
    return f"the last extent is {value.shape[-1]} before and {node.result.shape[-1]} after"


def _term(node: Node) -> Value | None:
    """The other operand of a sum, before its cast to float32."""
    k = 1 if node.operand(0) is node.chain else 0
    cast = node.source(k)
    if cast is not None and cast.info.name == "relax.astype" and widened(cast) is None:
        return cast.operand(0)
    return node.operand(k)


def widened_term(node: Node) -> Sequence[Op]:
    """The cast of the other operand to float32."""
    cast = node.source(1 if node.operand(0) is node.chain else 0)
    is_cast = cast is not None and cast.info.name == "relax.astype" and widened(cast) is None
    return (cast.op,) if cast is not None and is_cast else ()


def exact_row(half: str) -> Condition:
    """Return a condition: a sum with one half for each column, perhaps written as float32."""

    def check(node: Node) -> str | None:
        if (reason := row(node)) is not None:
            return reason
        value = _term(node)
        if value is None or not value.constant:
            return None if value is not None and value.dtype == half else f"it is not {half}"
        return None if as_half(value.expr.value.numpy(), half) is not None else (
            f"a bias has numbers that are not exact in {half}")  # fmt: skip

    return check


def as_half(array: Array, dtype: str) -> Array | None:
    """An array in a half dtype; None if that changes a number."""
    import ml_dtypes

    with np.errstate(over="ignore"):
        half: Array = array.astype(getattr(ml_dtypes, dtype, dtype))
    equal = np.array_equal(half.astype("float32"), array.astype("float32"), equal_nan=True)
    return half if equal else None


def half_term(half: str) -> Condition:
    """Return a condition: a sum with a half for each element, perhaps cast to float32."""

    def check(node: Node) -> str | None:
        if (reason := full_size(node)) is not None:
            return reason
        value = _term(node)
        if value is not None and value.dtype == half and not value.constant:
            return None
        return f"a residual is not computed in {half}"

    return check
