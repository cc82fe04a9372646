"""Products of 8-bit numbers that cuBLASLt takes: exact ones of int8, and scaled ones of float8.

    int8:    d = sum(a[i, k] * b[j, k] for k), an int32; what follows is left to TVM
    float8:  d = act(scale a·b + bias + residual), a float32 or rounded to a half

Tensor cores read the axis that is summed, so it is innermost in both operands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ....codegen.loading.cuda_device import cuda_device
from ....patterns.extents.symbolic_shapes import same_shape
from ....patterns.pattern import Condition, Node, Pattern, PatternStep, many, maybe, one
from ..libraries.dtypes import FLOAT8, HALVES, of
from .gemm import all_ones
from .product_patterns import (
    ANCHORS,
    batches,
    by_literal,
    full_size,
    rounded,
    row,
    same_columns,
    two_tensors,
)

#: By the dtype of the operands: those of the result, what rows and columns in memory must be
#: multiples of, and the least compute capability.
RESULTS = {"int8": ("int32",), FLOAT8: ("float32", *HALVES)}
MULTIPLES = {"int8": 4, FLOAT8: 16}
CAPABILITIES = {"int8": (7, 5), FLOAT8: (8, 9)}
#: The tensors of one element that the library multiplies a product by.
SCALES = 2


def eight_bits(activations: Collection[str]) -> tuple[Pattern, ...]:
    """The patterns of products of 8-bit numbers, with these activations."""
    out = []
    for name, start, ops in ANCHORS:
        conditions = (innermost, batches, extents, capable)
        out.append(Pattern(f"{name}_int8", *start, one(ops, operands("int8"), *conditions)))
        product = (*start, one(ops, operands(FLOAT8), *conditions))
        out += _float8(f"{name}_float8", product, activations)
    return tuple(out)


def _float8(
    name: str, product: tuple[PatternStep, ...], activations: Collection[str]
) -> list[Pattern]:
    rows = many("relax.reshape", same_columns)
    number = maybe(("relax.multiply", "relax.divide"), of("float32"), by_literal)
    tensors = PatternStep(frozenset(("relax.multiply",)), (of("float32"), single), 0, SCALES)
    scale = (number, tensors, number)
    out = [Pattern(name, *product, rows, *scale, rows, maybe(activations, of("float32")), rows)]
    for half in HALVES:
        out += rounded(f"{name}_{half}", product, scale, activations, half)
        literal = maybe(("relax.multiply", "relax.divide"), of(half), by_literal)
        added = [maybe("relax.add", of(half), fits) for fits in (row, full_size)]
        after = maybe(activations, of(half))
        steps = (literal, rows, added[0], rows, added[1], rows, after, rows)
        anchor = replace(product[-1], conditions=(*product[-1].conditions, results_in(half)))
        out.append(Pattern(f"{name}_in_{half}", *product[:-1], anchor, *steps))
    return out


def operands(dtype: str) -> Condition:
    """Return a condition: two tensors of a dtype, and a result that the library has for it."""

    def check(node: Node) -> str | None:
        pair = two_tensors(node)
        if isinstance(pair, str):
            return pair
        first, second = pair
        dtypes = (first.dtype, second.dtype)
        if dtypes != (dtype, dtype) or node.result.dtype not in RESULTS[dtype]:
            return (f"the dtypes are {dtypes[0]}, {dtypes[1]} and {node.result.dtype}, expected "
                    f"{dtype}, and {' or '.join(RESULTS[dtype])}")  # fmt: skip
        return None

    return check


def results_in(dtype: str) -> Condition:
    """Return a condition: the result has a dtype."""

    def check(node: Node) -> str | None:
        result_dtype = node.result.dtype
        return None if result_dtype == dtype else f"the result is {result_dtype}, expected {dtype}"

    return check


def innermost(node: Node) -> str | None:
    """The axis that is summed is the last one of both operands in memory."""
    turned = [bool(t) for t in node.info.attrs.get("transposed", (False, node.chain is not None))]
    if turned == [False, True] and (node.chain is None or node.chain is node.operand(1)):
        return None
    return "the axis that is summed is not the last one of both operands"


def extents(node: Node) -> str | None:
    """All extents are static; the columns and what is summed are multiples of some bytes."""
    first, second = node.operand(0), node.operand(1)
    assert first is not None and second is not None
    *rows, columns = node.result.shape
    return unaligned(first.dtype, rows, columns, first.shape[-1])


def refused(dtype: str, rows: Sequence[object], columns: object, terms: object) -> str | None:
    """Why a product is refused; for `Backend.eight_bits`."""
    return unaligned(dtype, rows, columns, terms) or incapable(dtype)


def unaligned(dtype: str, rows: Sequence[object], columns: object, terms: object) -> str | None:
    """Why the library may have no kernel for a product of these extents; None if it has.

    It has none for some extents, and says so only when it is asked. With symbolic rows, that would
    be in a call.
    """
    if not all(isinstance(extent, int) for extent in rows):
        return f"the number of rows is symbolic, expected a static one for {dtype}"
    least = MULTIPLES[dtype]
    for what, extent in (("columns", columns), ("terms of a sum", terms)):
        if not isinstance(extent, int):
            return f"the number of {what} is symbolic, expected a static one for {dtype}"
        if extent % least:
            return f"{extent} {what} of {dtype}, expected a multiple of {least}"
    return None


def capable(node: Node) -> str | None:
    """The GPU multiplies the dtype."""
    first = node.operand(0)
    assert first is not None
    return incapable(first.dtype)


def incapable(dtype: str) -> str | None:
    """Why the GPU of this machine cannot multiply a dtype; None if it can, or if there is none."""
    device = cuda_device()
    if not device.exist:
        return None
    version = tuple(int(part) for part in device.compute_version.split("."))
    if version >= CAPABILITIES[dtype]:
        return None
    major, minor = CAPABILITIES[dtype]
    return (f"the GPU has compute capability {device.compute_version}, expected {major}.{minor} "
            f"for {dtype}")  # fmt: skip


def single(node: Node) -> str | None:
    """The chain is multiplied by a tensor of one element."""
    assert node.chain is not None
    if len(node.others) != 1:
        return "it is not a tensor that the chain is multiplied by"
    (factor,) = node.others
    if not all_ones(factor.shape) or not same_shape(node.result.shape, node.chain.shape):
        return f"a factor has the shape {tuple(factor.shape)}, expected one element"
    return None
