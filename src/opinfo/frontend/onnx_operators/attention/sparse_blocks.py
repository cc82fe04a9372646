"""SparseAttention: heads see blocks of earlier keys, by layouts that they take in turns.

A layout has the blocks that each block of queries sees, in compressed rows (Phi-3-small).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode, dims_of
from .cache_rows import written_into
from .grouped_query import grouped_operands, keys_before, places_of, rotated_operands
from .heads import Scores, attended
from .score_masks import LOWEST

#: How many tokens a block has, by the schema.
SIZES = (16, 32, 64, 128)


@converts("SparseAttention", domain=MICROSOFT)
def sparse_attention(node: OnnxNode) -> list[Any]:
    """Attend to new keys and those of a cache, which has all its rows from the start."""
    check_attributes(node, "num_heads kv_num_heads scale sparse_block_size do_rotary "
                     "rotary_interleaved", {})  # fmt: skip
    block = int(node.attr("sparse_block_size", 0))
    if block not in SIZES:
        node.refuse(f"its attribute 'sparse_block_size' is {block}, expected one of "
                    f"{', '.join(map(str, SIZES))}")  # fmt: skip
    # As GroupQueryAttention has them, whose `seqlens_k` is one less than the length.
    last = node.emit(relax.op.subtract(node.tensor(8), relax.const(1, node.dtype(8))))
    more = [node.inputs[k] if node.has(k) else None for k in (9, 10)]
    inner = replace(node, inputs=[*node.inputs[:5], node.result(last), None, *more])
    query, key, value = grouped_operands(inner)
    batch, heads, queries, _ = dims_of(query)
    before = keys_before(inner, batch, queries)
    if node.attr("do_rotary", 0):
        query, key = rotated_operands(inner, (query, key), before)
    caches = []
    for k, new in ((3, key), (4, value)):
        outer, size = dims_of(new)[:2], dims_of(new)[3]
        if node.rank(k) != 4:
            node.refuse(f"input {k} has {node.rank(k)} dimensions, expected 4")
        old = node.cast_shape(node.tensor(k), [*outer, node.shape(3)[2], size])
        caches.append(written_into(node, old, new, before))
    layouts = _layouts(node, heads)
    shown = relax.const(layouts.astype("uint8"))
    mask = node.emit(node.builder.call_te(
        _mask, places_of(inner, before, queries), shown, heads, dims_of(caches[0])[2], block,
        primfunc_name_hint="block_mask"))  # fmt: skip
    wanted = [batch, heads if len(layouts) > 1 else 1, queries, dims_of(caches[0])[2]]
    how = Scores(float(node.attr("scale", 0.0)), mask=node.cast_shape(mask, wanted))
    return [attended(node, query, caches[0], caches[1], how)[0], *caches]


def _layouts(node: OnnxNode, heads: int) -> np.ndarray[Any, Any]:
    """Return which blocks of keys each block of queries sees, [layouts, blocks, blocks]."""
    rows, columns = node.array(5, "block_row_indices"), node.array(6, "block_col_indices")
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns) or rows.shape[1] < 2:
        node.refuse(f"its layouts have the shapes {rows.shape} and {columns.shape}, expected "
                    "(layouts, blocks + 1) and (layouts, the most blocks seen)")  # fmt: skip
    if heads % len(rows):
        node.refuse(f"there are {len(rows)} layouts for {heads} heads, expected a divisor")
    count = rows.shape[1] - 1
    seen = np.zeros((len(rows), count, count), bool)
    for k, (ends, places) in enumerate(zip(rows, columns, strict=True)):
        steps = np.diff(ends)
        if ends[0] != 0 or (steps < 0).any() or ends[-1] > len(places):
            node.refuse(f"block_row_indices of layout {k} are {ends.tolist()}, expected numbers "
                        f"from 0 to at most {len(places)} that do not decrease")  # fmt: skip
        used = places[: ends[-1]]
        if ((used < 0) | (used >= count)).any():
            node.refuse(f"block_col_indices of layout {k} are {used.tolist()}, expected 0 to "
                        f"{count - 1}")  # fmt: skip
        seen[k, np.repeat(np.arange(count), steps), used] = True
    if not np.tril(seen).any(2).all():
        layout, row = np.argwhere(~np.tril(seen).any(2))[0]
        node.refuse(f"block {row} of layout {layout} sees no block up to its own, expected at "
                    "least one")  # fmt: skip
    return seen


def _mask(places: te.Tensor, seen: te.Tensor, heads: int, keys: Any, block: int) -> te.Tensor:
    """Return 0 for keys that a query sees, else the lowest number."""
    layouts, count = int(seen.shape[0]), int(seen.shape[1])
    batch, queries = places.shape

    def element(b: Any, h: Any, i: Any, j: Any) -> Any:
        place = places[b, i]
        row = tirx.min(tirx.floordiv(place, block), count - 1)
        column = tirx.min(tirx.floordiv(j, block), count - 1)
        keep = tirx.all(j <= place, seen[tirx.floormod(h, layouts), row, column] != 0)
        return tirx.if_then_else(keep, tirx.const(0.0, "float32"), tirx.const(LOWEST, "float32"))

    shape = (batch, heads if layouts > 1 else 1, queries, keys)
    return te.compute(shape, element, name="mask")
