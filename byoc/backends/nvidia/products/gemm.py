"""Products of matrices with their epilogues: d = act(α a·b + bias + residual)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .....analysis.composites.products import TRANSPOSED_MATMUL
from ....backend.region import Call, Region, Tensor
from ....patterns.extents.symbolic_shapes import same_shape
from ...common.region_source import literal
from ..libraries.dtypes import FLOAT8, HALVES

#: Products, of operands that are perhaps stored transposed.
PRODUCTS = ("relax.matmul", TRANSPOSED_MATMUL)


#: What may combine a product with another tensor.
COMBINES = ("relax.add", "relax.multiply")


@dataclass(frozen=True)
class Gemm:
    """A region as one product. ``turned``: whether an operand's last two axes are swapped.

    ``merge``: the batch is joined with the rows, since the second operand has no batch.
    ``scales``: tensors of one element by which the product is multiplied.
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
    scales: tuple[Tensor, ...] = ()

    @property
    def rounds(self) -> list[str]:
        """How it rounds differently from its operators one by one."""
        if self.a.dtype == FLOAT8:
            return [f"products of {FLOAT8} are added by tensor cores, which keep fewer bits than "
                    "float32, rounded at the end"]  # fmt: skip
        half = self.a.dtype in HALVES
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
    alpha, activation = 1.0, None
    added: list[tuple[Call, Tensor]] = []
    scales: list[Tensor] = []
    after = list(_chain(region, product))
    for call, other in after:
        number = literal(call, "x2")
        if other is not None and call.op == "relax.multiply":
            scales.append(other)
        elif other is not None:
            added.append((call, other))
        elif call.op in ("relax.astype", "relax.reshape"):
            continue
        elif number is None:
            activation = call.op
        else:
            alpha = alpha * number if call.op == "relax.multiply" else alpha / number
    bias, residual = added_to(added)
    outer = len(a.shape) > 2 or len(region.result.shape) > 2
    merge = outer and all_ones(b.shape[:-2]) and not turned[0]
    cast = any(call.op == "relax.astype" for call, _ in after) and region.result.dtype == "float32"
    return Gemm(a, b, (turned[0], turned[1]), merge, alpha, bias, residual, activation, cast,
                tuple(scales))  # fmt: skip


def _chain(region: Region, product: Call) -> Iterator[tuple[Call, Tensor | None]]:
    """What follows a product, and the tensor that each adds, before its cast to float32, or
    multiplies by."""
    at, casts = product.result.index, dict[int, Tensor]()
    for call in region.calls[region.calls.index(product) + 1 :]:
        tensors = [o for o in call.operands if isinstance(o, Tensor)]
        chained = [t for t in tensors if (t.source, t.index) == ("call", at)]
        if not chained:
            casts[call.result.index] = tensors[0]
            continue
        at = call.result.index
        others = [t for t in tensors if t not in chained] if call.op in COMBINES else []
        yield call, casts.get(others[0].index, others[0]) if others and (
            others[0].source == "call") else next(iter(others), None)  # fmt: skip


def added_to(sums: Sequence[tuple[Call, Tensor]]) -> tuple[Tensor | None, Tensor | None]:
    """The bias and the residual: the first operand with the result's shape is the residual."""
    bias: Tensor | None = None
    residual: Tensor | None = None
    for call, operand in sums:
        if residual is None and same_shape(operand.shape, call.result.shape):
            residual = operand
        else:
            bias = operand
    return bias, residual


def all_ones(shape: Sequence[object]) -> bool:
    """Whether all extents are 1."""
    return all(isinstance(e, int) and e == 1 for e in shape)
