"""Read a PrimFunc as a product with weights that are quantised by group.

    w = group_dequantize(words, scale)     b[m, n] = sum over k of x[m, k] * w[n, k]     y = f(b)

The operators are recognised and proved; names do not matter. What follows the product is taken as
the PrimFunc has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from .....analysis.blocks.loop_steps import LoopStep
from .....analysis.blocks.tir import static
from .....analysis.chain import Chains
from .....analysis.chain.chain_result import Chain, Step
from .....analysis.composites.grouped import DEQUANTIZE
from .....analysis.composites.products import TRANSPOSED_MATMUL
from .....analysis.lifting.tir.node import items
from .....analysis.results.op_info import OpInfo
from ....prepare.raising.raise_ops import STRENGTH
from ..schedules.program.gpu_program import GpuProgram, NoGpuSchedule, product, read_program
from .storage import HALF_LANES, HALVES, PLAIN_ROWS, WORDS, axes_of, refused


@dataclass(frozen=True)
class Experts:
    """The matrices of rows: row r is multiplied with matrix ``ids[r]`` of several.

    Attributes:
        ids: The numbers of matrices.
        row: The variable of a row.
        rows: The number of rows.
    """

    ids: Any
    row: Any
    rows: int


@dataclass(frozen=True)
class GroupedProduct:
    """A product ``b[m, n]`` over parameters of a PrimFunc, and the elementwise step after it.

    The weights are packed, or halves, which have no scale.

    Attributes:
        program: The steps of the PrimFunc.
        x: The activations, of ``rows`` rows of ``depth`` elements.
        words: Packed weights of shape (columns, words of a column), or transposed.
        scale: Scales of shape (columns, groups), or transposed; None for halves.
        zeros: Zero points of the shape of the scales; None if there are none.
        zeros_axis: The axis along which they are packed as the values are; None if they are not.
        along: The axis of words, groups and sums; 1 for halves.
        width: The bits of a word.
        bits: The bits of a value.
        group: The values that share a scale.
        offset: The zero point of all groups.
        first: The step that computes the product; None if rows have experts.
        last: The step that computes the result from it; None if the product is the result.
        result: The buffer of the product.
        experts: The matrix that each row is multiplied with; None if all have the same one.
    """

    program: GpuProgram | None
    x: Any
    words: Any
    scale: Any
    zeros: Any
    zeros_axis: int | None
    along: int
    rows: int
    columns: int
    depth: int
    width: int
    bits: int
    group: int
    offset: float
    first: LoopStep | None
    last: LoopStep | None
    result: Any
    experts: Experts | None = None


def has_words(func: Any) -> bool:
    """Return whether a parameter of a PrimFunc may be a matrix of packed weights."""
    return any(
        str(getattr(getattr(p, "ty", None), "dtype", "")) in WORDS
        and len(shape := items(getattr(p.ty, "shape", None) or ())) == 2
        and all(static(e) for e in shape)
        for p in func.params
    )


def grouped_product(func: Any) -> GroupedProduct:
    """Return the product with packed weights that a PrimFunc computes.

    Raises:
        NoGpuSchedule: It computes something else, or not all of it is proved.
    """
    if not has_words(func):
        raise NoGpuSchedule("no parameter has packed weights")
    program = read_program(func, False, products=True)
    chain = proved_chain(func)
    weights, multiply, axis = _product_of(chain)
    params = items(func.params)
    operands: list[Any] = [params[v] for v in weights.operands if isinstance(v, int)]
    left, attrs = multiply.operands[0], weights.attrs
    if len(operands) != len(weights.operands) or not isinstance(left, int):
        raise NoGpuSchedule("operands are not parameters")
    words, scale, *zeros = operands
    x = params[left]
    depth = static(x.ty.shape[-1]) or 0
    rows = product([static(e) or 0 for e in items(x.ty.shape)[:-1]])
    if len(words.ty.shape) != 2 or axes_of(attrs) != {axis}:
        raise NoGpuSchedule("groups or words are not along sums")
    shape = [static(e) for e in items(words.ty.shape)]
    columns = shape[1 - axis] or 0
    dtypes = [str(t.ty.dtype) for t in (words, scale, x)]
    if (reason := refused(attrs, shape, depth, dtypes)) is not None:
        raise NoGpuSchedule(reason)
    zeros_axis = attrs.get("zero_points_axis")
    if zeros and zeros_axis is not None and str(zeros[0].ty.dtype) != dtypes[0]:
        raise NoGpuSchedule("zero points are packed into other words than values")
    first, last = _steps(program)
    return GroupedProduct(
        program, x, words, scale, zeros[0] if zeros else None,
        None if zeros_axis is None else int(zeros_axis) % 2, axis, rows, columns, depth,
        int(tvm.DataType(dtypes[0]).bits), int(attrs["bits"]), int(attrs["group_size"]),
        float(attrs.get("offset") or 0.0), first, last, first.updates[0].buffer,
    )  # fmt: skip


def plain_product(func: Any) -> GroupedProduct:
    """Return the product of few rows with a matrix of halves that a PrimFunc computes.

    Raises:
        NoGpuSchedule: It computes something else, or not all of it is proved.
    """
    program = read_program(func, False, products=True)
    first, last = _steps(program)
    shape = [static(e) or 0 for e in items(first.updates[0].buffer.ty.shape)]
    if not 0 < product(shape[:-1]) <= PLAIN_ROWS or len(shape) < 2:
        raise NoGpuSchedule(f"it has more than {PLAIN_ROWS} rows")
    if not any(_has_columns(p, shape[-1]) for p in items(func.params)):  # a chain takes longer
        raise NoGpuSchedule("no parameter is a matrix of halves with its columns")
    multiply = proved_chain(func).steps[0]
    name, attrs = multiply.operator.name, multiply.attrs
    turned = attrs.get("transposed")
    if name != TRANSPOSED_MATMUL or [bool(t) for t in turned or ()] != [False, True]:
        raise NoGpuSchedule("it is not a product with a transposed matrix")
    x, weights = (items(func.params)[v] if isinstance(v, int) else None for v in multiply.operands)
    if not isinstance(multiply.info, OpInfo) or x is None or weights is None:
        raise NoGpuSchedule("the operands are not parameters")
    dtypes = {str(t.ty.dtype) for t in (x, weights)}
    columns, depth, *more = (static(e) or 0 for e in items(weights.ty.shape))
    if more or len(dtypes) != 1 or not dtypes <= set(HALVES) or depth % HALF_LANES:
        raise NoGpuSchedule("the weights are not a matrix of halves in rows of vectors")
    rows = product([static(e) or 0 for e in items(x.ty.shape)[:-1]])
    return GroupedProduct(program, x, weights, None, None, None, 1, rows, columns, depth, 16, 16,
                          depth, 0.0, first, last, first.updates[0].buffer)  # fmt: skip


def _has_columns(param: Any, columns: int) -> bool:
    shape = items(getattr(param.ty, "shape", None) or ())
    halves = str(getattr(param.ty, "dtype", "")) in HALVES
    return halves and len(shape) == 2 and static(shape[0]) == columns


def proved_chain(func: Any) -> Chain:
    """Return the operators of a PrimFunc with one result, all of them proved.

    Raises:
        NoGpuSchedule: It has others.
    """
    chain = Chains()(func)
    if not isinstance(chain, Chain) or len(chain.outputs) != 1 or chain.inplace_indices:
        raise NoGpuSchedule("it is not a chain of operators with one result")
    if any(STRENGTH[s.info.certificate.kind] < STRENGTH["proved"] for s in chain.steps):
        raise NoGpuSchedule("an operator is not proved")
    return chain


def _steps(program: GpuProgram) -> tuple[LoopStep, LoopStep | None]:
    """The step that multiplies, and the one after it."""
    if not program.steps:
        raise NoGpuSchedule("it computes nothing")
    first, *after = program.steps
    if not first.reduced or len(first.updates) != 1 or len(after) > 1:
        raise NoGpuSchedule("it is not a product and one elementwise step")
    if after and (after[0].reduced or len(after[0].updates) != 1):
        raise NoGpuSchedule("what follows the product is not elementwise")
    return first, after[0] if after else None


def _product_of(chain: Chain) -> tuple[Step, Step, int]:
    """The dequantisation, the product, and the axis of the weights that it sums over."""
    weights, *rest = chain.steps
    moved = bool(rest) and rest[0].operator.name == "relax.permute_dims"
    if moved:
        _, *rest = rest
    if weights.operator.name != DEQUANTIZE or not rest:
        raise NoGpuSchedule("it does not start with a dequantisation by group")
    multiply = rest[0]
    if not isinstance(weights.info, OpInfo) or not isinstance(multiply.info, OpInfo):
        raise NoGpuSchedule("an operand has a permuted layout")
    name, attrs = multiply.operator.name, multiply.attrs
    if name == "relax.matmul":
        axis = 0
    elif name == TRANSPOSED_MATMUL and not attrs["transposed"][0]:
        axis = int(attrs["transposed"][1])
    else:
        raise NoGpuSchedule(f"{name} is not a product with a matrix")
    reads = multiply.operands[1]
    if isinstance(reads, int) or getattr(reads, "step", None) != int(moved):
        raise NoGpuSchedule("the second operand is not the dequantised weights")
    return weights, multiply, 1 - axis if moved else axis
