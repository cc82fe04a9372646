"""Steps of top-p and top-k sampling, defined in Relax operators."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax import op

from .defining.composite import composite

RENORMALIZE = "relax.nn.top_p_renormalize"
SUM = "relax.nn.top_p_top_k_sum"
SAMPLE = "relax.nn.sample_from_sorted"


@composite(RENORMALIZE)
def top_p_renormalize(probabilities: Any, pivots: Any, totals: Any) -> Any:
    """Return the probabilities of each row from a pivot on, over their total; the others are 0.

        out[b, v] = probabilities[b, v] / totals[b] if probabilities[b, v] >= pivots[b] else 0

    Args:
        probabilities: (batch, vocabulary), of a floating-point dtype.
        pivots: (batch,), of the same dtype: the least probability that is kept.
        totals: (batch,), of the same dtype.
    """
    _check(RENORMALIZE, [(probabilities, 2), (pivots, 1), (totals, 1)])
    zero = relax.const(0, str(probabilities.ty.dtype))
    kept = op.greater_equal(probabilities, op.expand_dims(pivots, [1]))
    return op.where(kept, op.divide(probabilities, op.expand_dims(totals, [1])), zero)


@composite(SUM)
def top_p_top_k_sum(previous: Any, sums: Any, top_p: Any, top_k: Any) -> Any:
    """Return the sum of the probabilities of each row that top-p and top-k sampling keep.

        more[b, j] = sums[b, j] < top_p[b] and j + 1 < top_k[b]
        out[b] = sums[b, 0] if not more[b, 0], else sums[b, j + 1] for the last j with
            more[b, j] and not more[b, j + 1], or sums[b, j] if more[b, j] in the last column

    There always is such a column, so nothing of ``previous`` remains: it is the content of the
    buffer that a kernel updates.

    Args:
        previous: (batch, 1), of a floating-point dtype.
        sums: (batch, vocabulary), of the same dtype: cumulative sums of sorted probabilities.
        top_p: (batch, 1), of the same dtype.
        top_k: (batch, 1), integers.
    """
    _check(SUM, [(x, 2) for x in (previous, sums, top_p, top_k)])
    kind, size = str(top_k.ty.dtype), sums.ty.shape[1]
    place, count = op.arange(0, size, 1, "int64"), op.astype(top_k, "int64")
    following = op.minimum(op.add(place, _int(1)), _int(size - 1))
    next_sum, first = op.take(sums, following, 1), _first(sums)
    more = _both(op.less(sums, top_p), op.less(op.add(place, _int(1)), count))
    goes_on = _both(op.less(next_sum, top_p), op.less(op.add(place, _int(2)), count))
    last = op.equal(op.add(place, _int(1)), _int(size))
    begins = _both(op.less(first, top_p), op.greater(top_k, relax.const(1, kind)))
    true = relax.const(True, "bool")
    stored = op.where(begins, _both(more, op.where(goes_on, last, true)), true)
    value = op.where(begins, op.where(last, sums, next_sum), first)
    return _last(previous, stored, value, sums.ty.shape)


@composite(SAMPLE)
def sample_from_sorted(
    previous: Any, sums: Any, tokens: Any, totals: Any, samples: Any, rows: Any
) -> Any:
    """Return the token that each sample chooses from a row of sorted probabilities.

        r = rows[b]; reached[b, j] = samples[b] < sums[r, j] / totals[r] or j is the last column
        out[b] = tokens[r, j] for the last j with reached[b, j]
            and (j == 0 or samples[b] >= sums[r, j - 1] / totals[r])

    Without such a column, which needs a NaN, ``out[b]`` is ``previous[b]``.

    Args:
        previous: (samples, 1), integers.
        sums: (batch, vocabulary), of a floating-point dtype: cumulative sums of the probabilities.
        tokens: (batch, vocabulary), of the dtype of ``previous``.
        totals: (batch, 1), of the dtype of the sums: the sum of the probabilities that are kept.
        samples: (samples, 1), of the same dtype, from [0, 1).
        rows: (samples, 1), integers.
    """
    _check(SAMPLE, [(x, 2) for x in (previous, sums, tokens, totals, samples, rows)])
    size = sums.ty.shape[1]
    place, row = op.arange(0, size, 1, "int64"), op.squeeze(rows, [1])
    sums, total = op.take(sums, row, 0), op.take(totals, row, 0)
    ratios = op.divide(sums, total)
    last = op.equal(op.add(place, _int(1)), _int(size))
    reached = op.logical_or(op.less(samples, ratios), last)
    before = op.take(sums, op.maximum(op.subtract(place, _int(1)), _int(0)), 1)
    above = op.greater_equal(samples, op.divide(before, total))
    later = _both(op.greater(place, _int(0)), above)
    token = op.take(tokens, row, 0)
    start = op.where(_first(reached), _first(token), previous)
    return _last(start, _both(reached, later), token, (samples.ty.shape[0], size))


def _last(start: Any, stored: Any, values: Any, shape: Any) -> Any:
    """The last value of each row with ``stored``; the start if there is none.

    All columns are stored in order, those without ``stored`` in a second column.
    """
    batch, size = shape
    row = op.expand_dims(op.arange(0, batch, 1, "int64"), [1, 2])
    column = op.expand_dims(op.where(stored, _int(0), _int(1)), [2])
    places = op.concat([op.broadcast_to(row, [batch, size, 1]), column], axis=2)
    pairs = op.scatter_nd(op.concat([start, start], axis=1), places, values)
    return _first(pairs)


def _first(table: Any) -> Any:
    """The first column."""
    return op.strided_slice(table, [1], [0], [1], assume_inbound=True)


def _both(a: Any, b: Any) -> Any:
    return op.logical_and(a, b)


def _check(name: str, ranks: list[tuple[Any, int]]) -> None:
    """Raise an error unless operands have the ranks."""
    if any(len(x.ty.shape) != rank for x, rank in ranks):
        raise ValueError(f"{name}: operands {', '.join(str(x.ty) for x, _ in ranks)}")


def _int(value: Any) -> Any:
    """An integer or a size as an operand."""
    return relax.const(value, "int64") if isinstance(value, int) else value
