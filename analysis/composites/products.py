"""Products of matrices whose operands may be transposed, defined in Relax operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.relax import op

from .defining.composite import composite

TRANSPOSED_MATMUL = "relax.nn.transposed_matmul"


@composite(TRANSPOSED_MATMUL)
def transposed_matmul(
    x1: Any, x2: Any, *, transposed: Sequence[bool] = (False, True), out_dtype: str | None = None
) -> Any:
    """Return the product of two matrices or batches of matrices that are stored transposed.

        out[b, i, j] = sum(x1[b, i, k] * x2[b, j, k] for k)     with transposed=(False, True)

    It is ``matmul(x1, permute_dims(x2))``, where the last two axes are swapped. Batch axes are
    broadcast as those of ``matmul``; so a weight of two axes is one for all batches.

    Args:
        x1: The first operand; with at least two axes if it is transposed.
        x2: The second operand; with at least two axes if it is transposed.
        transposed: Whether each operand is transposed: its last two axes are swapped.
        out_dtype: The dtype to which both operands are cast; None for their own.
    """
    if len(transposed) != 2 or not any(transposed):
        raise ValueError(f"{TRANSPOSED_MATMUL}: transposed={list(transposed)}, expected two "
                         "booleans of which at least one is true")  # fmt: skip
    operands = [_swapped(x) if swap else x for x, swap in zip((x1, x2), transposed, strict=True)]
    return op.matmul(*operands, out_dtype=out_dtype)


def _swapped(x: Any) -> Any:
    """A tensor with its last two axes swapped."""
    rank = len(x.ty.shape)
    if rank < 2:
        raise ValueError(f"{TRANSPOSED_MATMUL}: an operand of rank {rank} is transposed")
    return op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])
