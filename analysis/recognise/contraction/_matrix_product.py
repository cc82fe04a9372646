"""What recognisers of matrix products share: the two factors, and how a product reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ...lifting.effects.tensor_expression import TensorExpression
from ...results.op_info import Refusal
from ...terms.term import ONE, Int, Load, TensorVar, Var
from .._forms.sums_of_products import only, product


@dataclass(frozen=True)
class Factor:
    """A tensor with the indices at which a product reads it, over its own or swapped axes."""

    tensor: TensorVar
    indices: tuple[Int, ...]
    shape: tuple[Int, ...]

    @classmethod
    def of(cls, load: Load) -> Factor:
        return cls(load.tensor, load.indices, load.tensor.shape)

    @property
    def swapped(self) -> Factor:
        """The factor over a tensor with the last two axes swapped."""
        *batch, row, column = self.indices
        *outer, rows, columns = self.shape
        return Factor(self.tensor, (*batch, column, row), (*outer, columns, rows))


@dataclass(frozen=True)
class Factors:
    """``out[axes] = sum(a * b for summed)``."""

    a: Factor
    b: Factor
    axes: tuple[Int, ...]
    summed: tuple[Var, ...]

    def attrs(self, dtype: str) -> dict[str, object]:
        """The attributes of a product of this result type."""
        kinds = {self.a.tensor.dtype, self.b.tensor.dtype}
        return {"out_dtype": dtype} if kinds != {dtype} else {}


def factors(expression: TensorExpression) -> Factors | Refusal:
    """The two factors of a sum of products, in the order in which they are loaded."""
    if len(expression.outputs) != 1:
        return Refusal("a matrix product has one output")
    contraction = product(expression.outputs[0].body)
    if contraction is None or len(contraction.loads) != 2 or contraction.guards:
        return Refusal("the compute is not a sum of products of two operands")
    if not contraction.reduce.axes and all(
        poly is not ONE for load in contraction.loads for poly in load.tensor.shape
    ):
        return Refusal("nothing is summed")
    if any(only(i) is None and i.const != 0 for x in contraction.loads for i in x.indices):
        return Refusal("an operand is not read at plain coordinates", repr(contraction.loads))
    a, b = map(Factor.of, contraction.loads)
    return Factors(a, b, expression.outputs[0].axes, contraction.reduce.axes)


def is_matmul(product: Factors) -> bool:
    """Whether the last index of a and the second to last of b are contracted."""
    a, b = product.a, product.b
    if not (a.indices and b.indices):  # a scalar
        return False
    index = a.indices[-1]
    if only(index) is not None and only(index) not in product.summed:
        return False
    if b.indices[-2 if len(b.indices) > 1 else -1] is not index:
        return False
    inner = a.shape[-1], b.shape[-2 if len(b.indices) > 1 else -1]
    if inner[0] is not inner[1] and None not in (inner[0].const, inner[1].const):
        return False  # of two sizes TVM takes the first for both
    axes = list(product.axes)
    if len(b.indices) > 1 and (not axes or b.indices[-1] is not axes.pop()):
        return False
    if len(a.indices) > 1 and (not axes or a.indices[-2] is not axes.pop()):
        return False
    return all(_batch(x.indices[:-2], x.shape[:-2], tuple(axes)) for x in (a, b))


def _batch(indices: tuple[Int, ...], shape: tuple[Int, ...], axes: tuple[Int, ...]) -> bool:
    """Whether batch dimensions align at the end; one of extent 1 is broadcast."""
    if len(indices) > len(axes):
        return False
    aligned = axes[len(axes) - len(indices) :]
    return all(i is a or e.const == 1 for i, e, a in zip(indices, shape, aligned, strict=True))
