"""A product of rows with matrices that a number for each row chooses, read off a region.

take(matrices, ids)                          matmul(x, m)    x: (rows, n, k)  m: (rows, k, columns)
take(dequantize(words, scales), ids)         matmul(m, x)    m: (rows, columns, k)  x: (rows, k, 1)
dequantize(take(words, ids), take(scales, ids))     einsum("rk,rnk->rn", x, m)

Casts and permutations may lie between the matrices and the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....analysis.composites.grouped import DEQUANTIZE
from ....layout.graph.relax_graph import Op
from ...backend.region import Call, Region, Tensor, region
from ...patterns.extents.symbolic_shapes import offset
from ...patterns.pattern import Node
from ..weight_only.packed_kernels import product_of

TAKE = "relax.take"
CASTS = ("relax.astype",)
MOVES = ("relax.permute_dims",)
#: What a gather does with a number outside of the experts: reading there is an error of a kernel.
MODES = ("fast", "clip")


@dataclass(frozen=True)
class GatheredProduct:
    """A product of rows with matrices of their experts.

    Attributes:
        rows: The activations; each matrix multiplies one row, or several in a row.
        ids: The expert of each matrix, integers of rank 1.
        matrices: The matrices, or the words, the scales and perhaps the zero points of few bits.
        group: The dequantisation by group, if there is one.
        dtypes: The dtypes that the matrices are cast to, in order.
        experts, depth, columns: How many matrices, of which extents.
        axis: The axis of the matrices, 1 or 2, that is summed over.
        clips: Whether numbers outside of the experts become the nearest one.
        result: The result of the product, whose rows have one element for each column.
        alone: Whether columns are not the last axis of the result, but one of extent 1.
    """

    rows: Tensor
    ids: Tensor
    matrices: tuple[Tensor, ...]
    group: Call | None
    dtypes: tuple[str, ...]
    experts: int
    depth: int
    columns: int
    axis: int
    clips: bool
    result: Tensor
    alone: bool


@dataclass(frozen=True)
class _Matrices:
    """The gathered operand: a call in the region, its moves and casts, and the gather before."""

    gathers: tuple[Call, ...]
    group: Call | None
    swapped: bool
    dtypes: tuple[str, ...]


def sources(node: Node) -> Sequence[Op]:
    """The producers of the gathered operand of a product; empty if neither is gathered."""
    for k in (1, 0):
        nodes = _chosen(node.source(k))
        if nodes:
            return [n.op for n in nodes]
    return ()


def _chosen(node: Node | None) -> list[Node]:
    after: list[Node] = []
    while node is not None and node.info.name in (*CASTS, *MOVES):
        after.append(node)
        node = node.source(0)
    if node is None:
        return []
    if node.info.name == TAKE:
        data = node.source(0)
        group = [data] if data is not None and data.info.name == DEQUANTIZE else []
        return [*group, node, *reversed(after)]
    parts = [node.source(k) for k in range(len(node.info.operands))]
    takes = [p for p in parts if p is not None and p.info.name == TAKE]
    if node.info.name != DEQUANTIZE or len(takes) != len(parts):
        return []
    return [*takes, node, *reversed(after)]


def read_node(node: Node) -> GatheredProduct | str:
    """The product of a node with its sources, or why it is none."""
    taken = sources(node)
    if not taken:
        return "no operand is a gather of matrices that only it reads"
    return read(region("", (*taken, node.op), node.infos, elements=False).region)


def read(of: Region) -> GatheredProduct | str:
    """The product in a region, or why it is none."""
    calls = of.calls
    product = calls[product_of(of)]
    for side in (1, 0):
        operand = product.operands[side] if len(product.operands) == 2 else None
        if isinstance(operand, Tensor) and operand.source == "call":
            matrices = _matrices(calls, operand)
            return matrices if isinstance(matrices, str) else _product(product, side, matrices)
    return "no operand is a gather of matrices"


def _matrices(calls: Sequence[Call], tensor: Tensor) -> _Matrices | str:
    call, swapped, dtypes = calls[tensor.index], False, list[str]()
    while call.op in (*CASTS, *MOVES):
        if call.op in CASTS:
            dtypes.insert(0, call.result.dtype)
        elif (axes := _axes(call)) not in ((0, 1, 2), (0, 2, 1)):
            return f"the gathered matrices are permuted by {axes}"
        else:
            swapped ^= axes == (0, 2, 1)
        call = _maker(calls, call, 0)
    if call.op == TAKE:
        data = call.operands[0]
        grouped = isinstance(data, Tensor) and data.source == "call"
        group = _maker(calls, call, 0) if grouped else None
        return _Matrices((call,), group, swapped, tuple(dtypes))
    gathers = tuple(_maker(calls, call, k) for k in range(len(call.operands)))
    return _Matrices(gathers, call, swapped, tuple(dtypes))


def _maker(calls: Sequence[Call], call: Call, k: int) -> Call:
    operand = call.operands[k]
    assert isinstance(operand, Tensor)
    return calls[operand.index]


def _axes(call: Call) -> tuple[int, ...]:
    rank, axes = len(call.result.shape), call.attrs["axes"]
    if not isinstance(axes, (list, tuple)):
        return tuple(reversed(range(rank)))
    return tuple(int(a) % rank for a in axes)


def _product(product: Call, side: int, of: _Matrices) -> GatheredProduct | str:
    rows, first = product.operands[1 - side], of.gathers[0]
    chosen, ids = product.operands[side], first.operands[1]
    assert isinstance(chosen, Tensor)
    if not isinstance(rows, Tensor) or not isinstance(ids, Tensor):
        return "the rows or the numbers of the experts are literals"
    if any(g.operands[1] != ids or _mode(g) != _mode(first) for g in of.gathers):
        return "the gathers of words and scales have different indices"
    if any(_axis_of(g) != 0 for g in of.gathers) or _mode(first) not in MODES:
        return (f"the gather is along axis {_axis_of(first)} with mode {_mode(first)}, expected "
                f"axis 0 with {' or '.join(MODES)}")  # fmt: skip
    if len(ids.shape) != 1 or len(chosen.shape) != 3:
        return "the gathered matrices have more axes than one of rows"
    form = _form(product, side, rows, chosen)
    if isinstance(form, str):
        return form
    axis, alone = form
    depth, columns = chosen.shape[axis], chosen.shape[3 - axis]
    stored: Sequence[object] = [g.operands[0] for g in of.gathers]
    if of.group is not None and len(of.gathers) == 1:
        stored = of.group.operands
    matrices = tuple(t for t in stored if isinstance(t, Tensor))
    experts = matrices[0].shape[0]
    if not all(isinstance(e, int) for e in (experts, depth, columns)):
        return "the extents of the matrices are symbolic"
    return GatheredProduct(
        rows, ids, matrices, of.group, of.dtypes, experts, depth, columns,
        3 - axis if of.swapped else axis, _mode(first) == "clip", product.result, alone,
    )  # fmt: skip


def _mode(gather: Call) -> str:
    return str(gather.attrs["mode"])


def _axis_of(gather: Call) -> int:
    data = gather.operands[0]
    assert isinstance(data, Tensor)
    return int(gather.attrs["axis"] or 0) % len(data.shape)


def _form(product: Call, side: int, rows: Tensor, chosen: Tensor) -> tuple[int, bool] | str:
    """The axis of the gathered operand that is summed over, and `GatheredProduct.alone`."""
    if product.op == "relax.einsum":
        return _of_einsum(str(product.attrs["subscripts"]), side, rows)
    transposed = product.attrs.get("transposed") or (False, False)
    if len(rows.shape) != 3 or not (rows.shape[0] == 1 or _equal(rows.shape[0], chosen.shape[0])):
        return "the rows are not as many as the matrices, or shared by all"
    if side == 1 and transposed[0]:
        return "the rows are transposed"
    if side == 1:
        return 2 if transposed[1] else 1, False
    if rows.shape[1 if transposed[1] else 2] != 1:
        return "each matrix multiplies several columns"
    return 1 if transposed[0] else 2, True


def _equal(a: object, b: object) -> bool:
    return a == b if isinstance(a, int) else offset(a, b) == 0


def _of_einsum(subscripts: str, side: int, rows: Tensor) -> tuple[int, bool] | str:
    operands, _, out = subscripts.replace(" ", "").partition("->")
    parts = operands.split(",")
    matrix, row = parts[side], parts[1 - side]
    if len(matrix) != 3 or len({*matrix}) != 3 or len(row) != 2 or len({*row}) != 2:
        return f"the subscripts {subscripts} are not of rows and matrices"
    lead, depth = row[0], row[1]
    if depth not in matrix[1:] or out != matrix[0] + matrix[3 - matrix.index(depth)]:
        return f"the subscripts {subscripts} are not of rows and matrices"
    if lead != matrix[0] and (lead in matrix or rows.shape[0] != 1):
        return f"the subscripts {subscripts} are not of rows and matrices"
    return matrix.index(depth), False


def of_one_matrix(group: Call) -> dict[str, Any]:
    """The attributes of a dequantisation of matrices as of one matrix."""
    out = dict(group.attrs)
    for name in ("axis", "packed_axis", "zero_points_axis"):
        if out[name] is not None:
            out[name] = int(out[name]) % 3 - 1
    return out
