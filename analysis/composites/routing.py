"""Routing of tokens to experts, defined in Relax operators.

A token has k experts. Its rows are sorted by expert, for products of a matrix with the rows of an
expert. Cumulative sums over a mask, expert by expert, say where each row goes.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op

from ..support.tvm_compat import sym
from .defining.composite import composite

MASK = "relax.nn.expert_mask"
INDPTR = "relax.nn.expert_indptr"
ORDER = "relax.nn.expert_order"


@composite(MASK)
def expert_mask(indices: Any, *, experts: int, dtype: str = "int32") -> Any:
    """Return which experts each token has: ``out[t, e] = 1`` if ``e`` is in ``indices[t]``, else 0.

    Args:
        indices: (tokens, k), integers; k is a number.
        experts: The number of experts.
        dtype: The dtype of the mask.
    """
    kind, shape = _integers(MASK, indices, 2)
    if not isinstance(shape[1], tirx.IntImm):
        raise ValueError(f"{MASK}: an unknown number of experts for a token ({shape[1]})")
    place = op.arange(0, experts, 1, kind)
    chosen: Any = None
    for k in range(int(shape[1])):
        same = op.equal(op.strided_slice(indices, [1], [k], [k + 1]), place)
        chosen = same if chosen is None else op.logical_or(chosen, same)
    return op.where(chosen, relax.const(1, dtype), relax.const(0, dtype))


@composite(INDPTR)
def expert_indptr(sums: Any, *, experts: int) -> Any:
    """Return where the rows of each expert start and end: ``[0, sums[n - 1], sums[2*n - 1], ..]``.

    Args:
        sums: (experts * n,), integers: cumulative sums over the mask of each expert in turn.
        experts: The number of experts.
    """
    kind, (size,) = _integers(INDPTR, sums, 1)
    count = sym.Analyzer().simplify(tirx.floordiv(size, tirx.IntImm("int64", experts)))
    last = op.arange(1, experts + 1, 1, "int64")
    places = op.subtract(op.multiply(last, count), relax.const(1, "int64"))
    return op.concat([op.zeros([1], kind), op.take(sums, places, 0)], axis=0)


@composite(ORDER)
def expert_order(places: Any, tokens: Any, sums: Any, indices: Any) -> Any:
    """Return which row, and which token, is at each place of the rows sorted by expert.

        p = sums[indices[t, j] * batch + t] - 1
        places[p], tokens[p] = t * k + j, t                                  for each t, j

    Args:
        places: (batch * k,), integers: the old content.
        tokens: (batch * k,), of the same dtype: the old content.
        sums: (n,), integers: cumulative sums over the mask of each expert in turn.
        indices: (batch, k), integers: the experts of each token.
    """
    kind, _ = _integers(ORDER, places, 1)
    _, (batch, count) = _integers(ORDER, indices, 2)
    _integers(ORDER, sums, 1), _integers(ORDER, tokens, 1)
    token = op.expand_dims(op.arange(0, batch, 1, "int64"), [1])
    at = op.add(op.multiply(op.astype(indices, "int64"), batch), token)
    target = op.subtract(op.take(sums, at, 0), relax.const(1, str(sums.ty.dtype)))
    target = op.expand_dims(target, [2])
    row = op.add(op.multiply(token, count), op.arange(0, count, 1, "int64"))
    of_token = op.broadcast_to(token, [batch, count])
    return (
        op.scatter_nd(places, target, op.astype(row, kind)),
        op.scatter_nd(tokens, target, op.astype(of_token, kind)),
    )


def _integers(name: str, tensor: Any, rank: int) -> tuple[str, list[Any]]:
    """The dtype and shape of an operand; raise an error unless it has integers and this rank."""
    kind, shape = str(tensor.ty.dtype), list(tensor.ty.shape)
    if "int" not in kind or len(shape) != rank:
        raise ValueError(f"{name}: an operand {tensor.ty}, expected integers and rank {rank}")
    return kind, shape
