"""Steps of sampling over large vocabularies, defined in Relax operators."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op

from .defining.composite import composite

CHUNKS = "relax.nn.chunked_logsumexp"
SOFTMAX = "relax.nn.softmax_from_chunks"


@composite(CHUNKS)
def chunked_logsumexp(
    data: Any, temperature: Any, *, chunk_size: int, threshold: float = 1e-5
) -> Any:
    """Return the logarithm of the sum of exponentials, and the maximum, of each chunk of each row.

        x[b, v] = data[b, v] / temperature[b]
        maxima[b, c] = max(x[b, v] for v in chunk c)
        sums[b, c] = log(sum(exp(x[b, v] - maxima[b, c]) for v in chunk c))

    A temperature up to ``threshold`` stands for 0: x is the data then, and ``sums[b, c]`` is the
    number of maxima in the chunk. `softmax_from_chunks` has use for the results.

    Args:
        data: (batch, vocabulary), of a floating-point dtype.
        temperature: (batch,), of the same dtype.
        chunk_size: The number of values in a chunk; the last one may be smaller.
        threshold: The largest temperature that stands for 0.
    """
    dtype, (_, size) = str(data.ty.dtype), list(data.ty.shape)
    if chunk_size < 1 or len(temperature.ty.shape) != 1:
        raise ValueError(f"{CHUNKS}: chunks of {chunk_size} of {data.ty}, {temperature.ty}")
    count = (size + (chunk_size - 1)) // chunk_size
    least = relax.const(tirx.min_value(dtype).value, dtype)
    start = op.expand_dims(op.arange(0, count * chunk_size, chunk_size, "int64"), [1])
    place = op.add(start, op.arange(0, chunk_size, 1, "int64"))
    inside = op.less(place, _int(size))
    read = op.take(data, op.minimum(place, _int(size - 1)), 1)
    warm = op.expand_dims(op.greater(temperature, tirx.const(threshold, dtype)), [1, 2])
    scaled = op.where(warm, op.divide(read, op.expand_dims(temperature, [1, 2])), read)
    values = op.where(inside, scaled, least)
    maxima = op.max(values, [2])
    largest = op.expand_dims(maxima, [2])
    terms = op.where(
        warm, op.exp(op.subtract(values, largest)), op.astype(op.equal(values, largest), dtype)
    )
    total = op.sum(op.where(inside, terms, relax.const(0, dtype)), [2])
    warm = op.expand_dims(op.greater(temperature, tirx.const(threshold, dtype)), [1])
    return op.where(warm, op.log(total), total), maxima


@composite(SOFTMAX)
def softmax_from_chunks(
    data: Any, temperature: Any, sums: Any, maxima: Any, *, threshold: float = 1e-5
) -> Any:
    """Return the softmax of ``data / temperature`` over each row, from the results of its chunks.

        largest[b] = max_c maxima[b, c]
        total[b] = sum_c exp(sums[b, c] + maxima[b, c] - largest[b])
        out[b, v] = exp(data[b, v] / temperature[b] - (log(total[b]) + largest[b]))

    For a temperature up to ``threshold``, the maxima of the row share the probability.

    Args:
        data: (batch, vocabulary), of a floating-point dtype.
        temperature: (batch,), of the same dtype.
        sums: (batch, chunks), of the same dtype: the first result of `chunked_logsumexp`.
        maxima: (batch, chunks), of the same dtype: the second one.
        threshold: The largest temperature that stands for 0.
    """
    dtype = str(data.ty.dtype)
    if len(data.ty.shape) != 2 or len(temperature.ty.shape) != 1:
        raise ValueError(f"{SOFTMAX}: data {data.ty}, temperature {temperature.ty}")
    heat = op.expand_dims(temperature, [1])
    warm = op.greater(heat, tirx.const(threshold, dtype))
    largest = op.max(maxima, [1], keepdims=True)
    at_largest = op.astype(op.equal(maxima, largest), dtype)
    terms = op.where(
        warm, op.exp(op.subtract(op.add(sums, maxima), largest)), op.multiply(at_largest, sums)
    )
    total = op.sum(terms, [1], keepdims=True)
    soft = op.exp(op.subtract(op.divide(data, heat), op.add(op.log(total), largest)))
    hard = op.divide(op.astype(op.equal(data, largest), dtype), total)
    return op.where(warm, soft, hard)


def _int(value: Any) -> Any:
    """A size as an operand."""
    return value if not isinstance(value, int) else tirx.const(value, "int64")
