"""Updates of a tensor at indices from data, defined in Relax operators.

They are what kernels do that write a part of a buffer in place: the bias of some logits, rows of a
batch, tokens of a paged cache.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op

from .defining.composite import composite

UPDATE = "relax.nn.index_update"
PENALTY = "relax.nn.apply_penalty"
BITMASK = "relax.nn.apply_token_bitmask"
APPEND = "relax.nn.append_to_pages"
REDUCTIONS = ("update", "add", "mul", "max", "min")


@composite(UPDATE)
def index_update(
    data: Any,
    updates: Any,
    rows: Any,
    columns: Any = None,
    *,
    reduction: str = "update",
) -> Any:
    """Return the data after updates of the elements or rows that indices name, in order.

        out = data; for k: out[rows[k], columns[k], ..] = updates[k, ..]

    Args:
        data: (m, n, ..), of any dtype.
        updates: (k, ..): one element, or one row without ``columns``, for each index.
        rows: (k,), integers. They must be inside.
        columns: (k,), integers of the same dtype; None if ``rows`` is the only index.
        reduction: How an update is combined with the element: update (replace), add, mul, max, min.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{UPDATE}: reduction {reduction}, expected one of {REDUCTIONS}")
    places = [rows] if columns is None else [rows, columns]
    _check(UPDATE, tuple(places), updates, 1 + len(data.ty.shape) - len(places))
    return _put(data, updates, places, reduction)


@composite(PENALTY)
def apply_penalty(
    logits: Any, seq_ids: Any, positions: Any, tokens: Any, counts: Any, penalties: Any
) -> Any:
    """Return logits with the presence, frequency and repetition penalties of some tokens.

        presence, frequency, repetition = penalties[positions[k]]
        x = logits[seq_ids[positions[k]], tokens[k]] - (presence + counts[k] * frequency)
        out[seq_ids[positions[k]], tokens[k]] = x * repetition if x < 0 else x / repetition

    Args:
        logits: (batch, vocabulary), of a floating-point dtype.
        seq_ids: (sequences,), integers: the row of each sequence.
        positions: (k,), integers: the sequence of each token.
        tokens: (k,), integers.
        counts: (k,), integers: how often the token occurred.
        penalties: (sequences, 3), of the dtype of the logits.
    """
    _check(PENALTY, (seq_ids, positions, tokens, counts), logits, 2)
    dtype = str(logits.ty.dtype)
    places = [op.take(seq_ids, positions, 0), tokens]
    rows = op.take(penalties, positions, 0)
    presence, frequency, repetition = (
        op.squeeze(op.strided_slice(rows, [1], [k], [k + 1]), [1]) for k in range(3)
    )
    old = op.gather_nd(logits, op.astype(_stacked(places), "int64"))
    lowered = op.subtract(old, op.add(presence, op.multiply(op.astype(counts, dtype), frequency)))
    new = op.where(
        op.less(lowered, relax.const(0, dtype)),
        op.multiply(lowered, repetition),
        op.divide(lowered, repetition),
    )
    return _put(logits, new, places)


@composite(BITMASK)
def apply_token_bitmask(logits: Any, seq_ids: Any, bitmask: Any) -> Any:
    """Return logits in which the tokens that a mask excludes are the least number, in some rows.

        bit = bitmask[seq_ids[k], v // 32] >> v % 32 & 1
        out[seq_ids[k], v] = logits[seq_ids[k], v] if bit == 1 else the least number of the dtype

    Args:
        logits: (batch, vocabulary), of a floating-point dtype.
        seq_ids: (k,), integers: the rows that change.
        bitmask: (batch, vocabulary / 32 rounded up), int32 or uint32: one bit for each token.
    """
    _check(BITMASK, (seq_ids,), logits, 2)
    dtype, kind = str(logits.ty.dtype), str(bitmask.ty.dtype)
    size = logits.ty.shape[1]
    token = op.arange(0, size, 1, "int64")
    word = op.floor_divide(token, tirx.const(32, "int64"))
    place = op.astype(op.floor_mod(token, tirx.const(32, "int64")), kind)
    words = op.take(op.take(bitmask, seq_ids, 0), word, 1)
    bit = op.bitwise_and(op.right_shift(words, place), relax.const(1, kind))
    allowed = op.equal(bit, relax.const(1, kind))
    least = relax.const(tirx.min_value(dtype).value, dtype)
    new = op.where(allowed, op.take(logits, seq_ids, 0), least)
    return _put(logits, new, [seq_ids])


@composite(APPEND)
def append_to_pages(pages: Any, positions: Any, data: Any, values: Any = None) -> Any:
    """Return a paged cache after storing the vectors of new tokens at their positions.

        page, slot = positions[k] // page_size, positions[k] % page_size
        out[page, 0, h, slot, d], out[page, 1, h, slot, d] = data[k, h, d], values[k, h, d]
        out[page, slot, d] = data[k, d]                                         without values

    A token at position -1 is not stored.

    Args:
        pages: (pages, 2, heads, page_size, features), or (pages, page_size, features).
        positions: (tokens,), int32 or int64: places in the pages, counted through all pages.
        data: The keys, (tokens, heads, features); or (tokens, features).
        values: The values, as the keys; None if a cache has one vector for each token.
    """
    kind = str(positions.ty.dtype)
    _check(APPEND, (positions,), pages, 3 if values is None else 5)
    if values is not None:
        data = op.concat([op.expand_dims(data, [1]), op.expand_dims(values, [1])], axis=1)
    order = [0, 1, 2] if values is None else [0, 3, 1, 2, 4]
    shape = [pages.ty.shape[k] for k in order]
    size = _number(shape[1], kind)
    spare = op.zeros([1, *shape[1:]], str(pages.ty.dtype))
    longer = op.concat([op.permute_dims(pages, order), spare], axis=0)
    page, slot = op.floor_divide(positions, size), op.floor_mod(positions, size)
    behind = op.add(page, _number(shape[0] + 1, kind))  # the page of position -1 is -1
    page = op.where(op.equal(positions, tirx.const(-1, kind)), behind, page)
    stored = _put(longer, data, [page, slot])
    out = op.take(stored, op.arange(0, shape[0], 1, "int64"), 0)
    return op.permute_dims(out, [0, 1, 2] if values is None else [0, 2, 3, 1, 4])


def _put(data: Any, updates: Any, places: list[Any], reduction: str = "update") -> Any:
    """Updates at places, in order."""
    return op.scatter_nd(data, _stacked(places), updates, reduction)


def _check(name: str, indices: tuple[Any, ...], data: Any, rank: int) -> None:
    """Raise an error unless indices are vectors of integers and the data have a rank."""
    if any(len(p.ty.shape) != 1 or "int" not in str(p.ty.dtype) for p in indices):
        raise ValueError(f"{name}: indices {', '.join(str(p.ty) for p in indices)}")
    if len(data.ty.shape) != rank:
        raise ValueError(f"{name}: data {data.ty}, expected {rank} dimensions")


def _number(value: Any, dtype: str) -> Any:
    """A size as a number of a dtype."""
    return value if dtype == "int64" else tirx.Cast(dtype, value)


def _stacked(places: list[Any]) -> Any:
    """The indices of each update as a row."""
    rows = [op.expand_dims(p, [1]) for p in places]
    return rows[0] if len(rows) == 1 else op.concat(rows, axis=1)
