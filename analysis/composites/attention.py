"""Attention of language models: grouped heads, capped scores, results over parts of the keys."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op

from .defining.composite import composite

GROUPED = "relax.nn.grouped_attention"
MERGE = "relax.nn.merge_attention_states"


@composite(GROUPED)
def grouped_attention(
    query: Any, key: Any, value: Any, mask: Any = None, *, scale: float, softcap: float = 0.0,
    softmax_dtype: str | None = None,
) -> Any:  # fmt: skip
    """Return attention of queries to the keys and values of their group of heads.

        s[b, h, i, j] = sum(query[b, i, h, d] * key[b, j, h // n, d] for d) * scale
        s = tanh(s / softcap) * softcap                                 unless softcap is 0
        out[b, i, h] = sum(softmax_j(s + mask)[b, h, i, j] * value[b, j, h // n] for j)

    with ``n`` query heads for each head of keys. The weights are cast to the dtype of ``value``.

    Args:
        query: ``[batch, rows, heads, size]``.
        key: ``[batch, columns, groups, size]``; the heads are a multiple of the groups.
        value: ``[batch, columns, groups, size]``.
        mask: Added to the scores, which have the axes batch, heads, rows, columns; None for none.
        scale: The factor of the scores.
        softcap: The bound of the scores; 0 for none.
        softmax_dtype: The dtype of the softmax; None for that of the scores.
    """
    dtype = str(query.ty.dtype)
    q, k, v = (
        op.permute_dims(x, [0, 2, 1, 3])
        for x in (query, _repeated(key, query), _repeated(value, query))
    )
    scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2]))
    scores = op.multiply(scores, relax.const(scale, dtype))
    if softcap:
        cap = relax.const(softcap, dtype)
        scores = op.multiply(op.tanh(op.divide(scores, cap)), cap)
    if mask is not None:
        scores = op.add(scores, mask)
    wide = softmax_dtype is not None and softmax_dtype != dtype
    weights = op.nn.softmax(op.astype(scores, softmax_dtype) if wide else scores, -1)
    weights = op.astype(weights, dtype) if wide else weights
    return op.permute_dims(op.matmul(weights, v), [0, 2, 1, 3])


@composite(MERGE)
def merge_attention_states(values: Any, scores: Any, others: Any, other_scores: Any) -> Any:
    """Return attention over two sets of keys, from the results over each of them.

        s = log2(2 ** scores + 2 ** other_scores)
        v = values * 2 ** (scores - s) + others * 2 ** (other_scores - s)

    The results are ``v`` and ``s``. Sums are in the dtype of the scores.

    Args:
        values: (tokens, heads, features): attention over the first set of keys.
        scores: (tokens, heads): the logarithm to base 2 of the sum of exponentials of its scores.
        others: As ``values``, over the second set.
        other_scores: As ``scores``, over the second set.
    """
    if len(values.ty.shape) != 3 or len(scores.ty.shape) != 2:
        raise ValueError(f"{MERGE}: {values.ty} with {scores.ty}")
    dtype, wide = str(values.ty.dtype), str(scores.ty.dtype)
    two = relax.const(2, wide)
    largest = op.maximum(scores, other_scores)
    parts = [op.power(two, op.subtract(s, largest)) for s in (scores, other_scores)]
    total = op.add(*parts)
    weighted = [
        op.multiply(op.astype(x, wide), op.expand_dims(op.divide(part, total), [2]))
        for x, part in zip((values, others), parts, strict=True)
    ]
    merged = op.add(op.divide(op.log(total), op.log(two)), largest)
    return op.astype(op.add(*weighted), dtype), merged


def _repeated(x: Any, query: Any) -> Any:
    """Keys or values, each head as often as queries have it."""
    heads, groups = query.ty.shape[2], x.ty.shape[2]
    if not isinstance(heads, tirx.IntImm) or not isinstance(groups, tirx.IntImm):
        raise ValueError(f"{GROUPED}: the numbers of heads {heads} and {groups} are not literals")
    if int(heads) % int(groups):
        raise ValueError(f"{GROUPED}: {heads} heads of queries for {groups} of keys")
    times = int(heads) // int(groups)
    return op.repeat(x, times, axis=2) if times > 1 else x
