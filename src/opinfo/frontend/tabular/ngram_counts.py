"""TfIdfVectorizer: how often sequences of integers hold given n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from ..onnx_graph.conversion.converter_table import converts
from ..onnx_graph.onnx_node import OnnxNode

Grams = list[tuple[int, ...]]


@converts("TfIdfVectorizer")
def tf_idf_vectorizer(node: OnnxNode) -> Any:
    """Return counts, whether there are any, or weighted counts, in the columns of their n-grams."""
    columns, mode = list(node.attr("ngram_indexes")), node.text("mode", "")
    grams = _grams(node)
    size = max(columns, default=-1) + 1
    if len(columns) < len(grams) or min(columns, default=0) < 0:
        node.refuse(f"ngram_indexes are {columns[:8]}, expected a column for each of "
                    f"{len(grams)} n-grams")  # fmt: skip
    weights = _weights(node, columns, size)
    if mode not in ("TF", "IDF", "TFIDF"):
        node.refuse(f"mode is '{mode}', expected TF, IDF or TFIDF")
    sizes = node.shape(0)
    if len(sizes) not in (1, 2):
        node.refuse(f"input 0 has {len(sizes)} dimensions, expected 1 or 2")
    rows = [1, *sizes] if len(sizes) == 1 else sizes
    data = node.emit(relax.op.astype(node.tensor(0), "int64"))
    totals = _totals(node, node.reshape(data, rows), grams, columns, size)
    if mode == "IDF":
        present = node.emit(relax.op.greater(totals, relax.const(0.0, "float32")))
        totals = node.emit(relax.op.astype(present, "float32"))
    if mode != "TF":
        totals = node.emit(relax.op.multiply(totals, relax.const(weights, "float32")))
    return relax.op.reshape(totals, [size]) if len(sizes) == 1 else totals


def _weights(node: OnnxNode, columns: Sequence[int], size: int) -> np.ndarray[Any, Any]:
    """Return the weight of each column.

    By ONNX a weight is that of an n-gram, by its reference and ONNX Runtime that of a column.
    """
    given, result = list(node.attr("weights") or []), np.ones(size, "float32")
    if not given:
        return result
    for k, column in enumerate(columns):
        if k >= len(given) or column >= len(given) or given[column] != given[k]:
            node.refuse(f"{len(given)} weights, expected one for each of {len(columns)} n-grams, "
                        "in the order of ngram_indexes")  # fmt: skip
        result[column] = given[k]
    return result


def _grams(node: OnnxNode) -> Grams:
    """Return all n-grams, shortest first."""
    if node.attr("pool_strings"):
        node.refuse("n-grams of strings, expected integers")
    pool, starts = list(node.attr("pool_int64s") or []), list(node.attr("ngram_counts"))
    if starts != sorted(starts) or any(not 0 <= start <= len(pool) for start in starts):
        node.refuse(f"ngram_counts are {starts}, expected ascending places from 0 to {len(pool)}")
    grams: Grams = []
    for k, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True)):
        if (end - start) % (k + 1):
            node.refuse(f"{end - start} integers for n-grams of {k + 1}, expected a multiple")
        grams += [tuple(pool[j : j + k + 1]) for j in range(start, end, k + 1)]
    if len(set(grams)) != len(grams):
        node.refuse("an n-gram is given twice")
    return grams


def _totals(node: OnnxNode, data: Any, grams: Grams, columns: Sequence[int], size: int) -> Any:
    """Return the counts (rows, size) of the n-grams that have an allowed length."""
    least, most = int(node.attr("min_gram_length")), int(node.attr("max_gram_length"))
    skips = int(node.attr("max_skip_count"))
    if least < 1 or skips < 0:
        node.refuse(f"min_gram_length is {least} and max_skip_count {skips}, expected from 1 and 0")
    total = None
    for length in sorted({len(gram) for gram in grams if least <= len(gram) <= most}):
        own = [k for k, gram in enumerate(grams) if len(gram) == length]
        counts = _Counts(length, skips if length > 1 else 0)
        table = relax.const(np.array([grams[k] for k in own], "int64"), "int64")
        found = node.builder.emit_te(counts, data, table, primfunc_name_hint="ngram_counts")
        places = np.zeros((len(own), size), "float32")
        places[np.arange(len(own)), [columns[k] for k in own]] = 1
        part = node.emit(relax.op.matmul(found, relax.const(places, "float32")))
        total = part if total is None else node.emit(relax.op.add(total, part))
    if total is None:
        return node.emit(relax.op.zeros([data.ty.shape.values[0], size], "float32"))
    return total


@dataclass(frozen=True)
class _Counts:
    """Counts n-grams of a length whose elements are at most so many elements apart."""

    length: int
    skips: int

    def __call__(self, data: Any, grams: Any) -> Any:
        """Return the counts (rows, n-grams) in data (rows, elements)."""
        one, zero = (tirx.const(x, "float32") for x in (1.0, 0.0))

        def count(row: Any, gram: Any) -> Any:
            start = te.reduce_axis((0, data.shape[1]), name="start")
            skip = te.reduce_axis((0, tirx.const(self.skips + 1, "int64")), name="skip")
            places = [start + k * (skip + 1) for k in range(self.length)]
            inside = places[-1] < data.shape[1]
            equal = [tirx.EQ(data[row, place], grams[gram, k]) for k, place in enumerate(places)]
            term = tirx.Select(tirx.all(*equal), one, zero)
            return te.sum(tirx.if_then_else(inside, term, zero), axis=[start, skip])

        return te.compute((data.shape[0], grams.shape[0]), count, name="ngram_counts")
