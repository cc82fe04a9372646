"""Attention of language models over caches in pages and over ragged batches, by its definition.

Source of pages: Kwon et al., PagedAttention, arXiv 2309.06180. All results are attention, and the
logarithm to base 2 of the sum of exponentials of the scores, which `merge_attention_states` takes.
Each row of queries must see a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.relax import op

from ..composites.defining.composite import composite
from ..composites.positions.rope_scaling import PLAIN, RopeScaling
from .rows import Heads, Sequences, counted, number, size

#: The numbers of a scaling of rotary embeddings.
Numbers = Sequence[float]
DECODE = "relax.nn.paged_decode_attention"
PREFILL = "relax.nn.paged_prefill_attention"
RAGGED = "relax.nn.ragged_attention"
TREE = "relax.nn.tree_attention"
PAGED_TREE = "relax.nn.paged_tree_attention"


@composite(DECODE)
def paged_decode_attention(
    query: Any, pages: Any, page_indptr: Any, page_table: Any, lengths: Any, key_offsets: Any,
    positions: Any, rotary_mode: Any, rope_scale: Any, rope_theta: Any, scale: Any, *,
    scaling: str = PLAIN, parameters: Numbers = (),
) -> Any:  # fmt: skip
    """Return attention of one query for each sequence to the keys in its pages.

        s[b, h, j] = sum(query[b, h, d] * key[b, j, h // n, d] for d) * scale
        out[b, h] = sum(softmax_j(s)[b, h, j] * value[b, j, h // n] for j)

    with ``n`` heads of queries for each one of keys. Key j of sequence b is in page
    ``page_table[page_indptr[b] + j // page_size]``. `paged_prefill_attention` documents the
    operands.
    """
    rows, heads = Sequences.single(query.ty.shape[0]), Heads.of(query, pages.ty.shape[2])
    keys, values, columns, length = _paged(pages, page_indptr, page_table, lengths, rows)
    rope = (rotary_mode, rope_scale, rope_theta, _scaling(scaling, parameters))
    q = heads.turned(query, op.expand_dims(positions, [1, 2]), *rope)
    k = heads.turned(keys, _places(op.add(rows.first(key_offsets), columns)), *rope)
    return heads.weighted(q, k, values, op.less(columns, length), scale)


@composite(PREFILL)
def paged_prefill_attention(
    query: Any, query_indptr: Any, pages: Any, page_indptr: Any, page_table: Any, lengths: Any,
    key_offsets: Any, positions: Any, causal: Any, rotary_mode: Any, rope_scale: Any,
    rope_theta: Any, scale: Any, *, window: int = 0, scaling: str = PLAIN, parameters: Numbers = (),
) -> Any:  # fmt: skip
    """Return attention of the queries of each sequence to the keys in its pages.

    Row i of a sequence with q queries and k keys sees key j

        where j < k - q + i + 1                                 if causal is positive, and
        where k - max(window - i - 1, 0) <= j                   if it is, and there is a window,
        where j < k                                             always.

    Args:
        query: (rows, heads, features).
        query_indptr: (sequences + 1,): the first row of each sequence, int32 as all indices.
        pages: (pages, 2, groups, page_size, features): keys, then values.
        page_indptr: (sequences + 1,): the first entry of each sequence in the page table.
        page_table: (entries,): pages, in the order of the tokens.
        lengths: (sequences,): the number of tokens in the last page. Or (3, sequences): that
            number, the first token after the hidden ones, the number of tokens before them.
        key_offsets: (sequences,): the position of the first key.
        positions: (rows,): the positions of the queries.
        causal: An integer without dimensions.
        rotary_mode: An integer without dimensions: 1 if queries and keys are turned first, by
            rotary embeddings of halves.
        rope_scale: The factor of positions, float32 without dimensions.
        rope_theta: The base of frequencies, float32 without dimensions.
        scale: The factor of scores, float32 without dimensions.
        window: With a window, causal attention sees the last keys only, and all of them.
        scaling: The scaling of rotary embeddings: llama3, yarn, longrope, or none.
        parameters: Its numbers, see `RopeScaling`.
    """
    rows, heads = _split(query, query_indptr), Heads.of(query, pages.ty.shape[2])
    keys, values, columns, length = _paged(pages, page_indptr, page_table, lengths, rows)
    rope = (rotary_mode, rope_scale, rope_theta, _scaling(scaling, parameters))
    q = heads.turned(query, op.expand_dims(positions, [1, 2]), *rope)
    k = heads.turned(keys, _places(op.add(rows.first(key_offsets), columns)), *rope)
    return heads.weighted(q, k, values, _visible(columns, length, rows, causal, window), scale)


@composite(RAGGED)
def ragged_attention(
    query: Any, query_indptr: Any, keys: Any, values: Any, key_indptr: Any, positions: Any,
    key_offsets: Any, causal: Any, rotary_mode: Any, rope_scale: Any, rope_theta: Any, scale: Any,
    *, scaling: str = PLAIN, parameters: Numbers = (),
) -> Any:  # fmt: skip
    """Return attention of the queries of each sequence to its keys, which follow each other.

    `paged_prefill_attention` documents the other operands.

    Args:
        keys: (tokens, groups, features).
        values: (tokens, groups, features).
        key_indptr: (sequences + 1,): the first key of each sequence.
    """
    rows, heads = _split(query, query_indptr), Heads.of(query, keys.ty.shape[1])
    k, v, columns, length, _ = _ragged(keys, values, key_indptr, rows)
    rope = (rotary_mode, rope_scale, rope_theta, _scaling(scaling, parameters))
    q = heads.turned(query, op.expand_dims(positions, [1, 2]), *rope)
    k = heads.turned(k, _places(op.add(rows.first(key_offsets), columns)), *rope)
    return heads.weighted(q, k, v, _visible(columns, length, rows, causal, 0), scale)


@composite(TREE)
def tree_attention(
    query: Any, query_indptr: Any, keys: Any, values: Any, key_indptr: Any, positions: Any,
    tree_indptr: Any, tree: Any, rotary_mode: Any, rope_scale: Any, rope_theta: Any, scale: Any,
    *, scaling: str = PLAIN, parameters: Numbers = (),
) -> Any:  # fmt: skip
    """Return attention of trees of tokens: each sees the keys before the tree, and its ancestors.

    Node n of a tree is an ancestor of node m if ``tree[n, 0] <= tree[m, 0] < tree[n, 1]``. The last
    keys and rows of a sequence are the nodes of its tree. `ragged_attention` documents the other
    operands; keys have the positions of the queries.

    Args:
        tree_indptr: (sequences + 1,): the first node of each tree.
        tree: (nodes, 2): the number of each node in depth-first order, and the first number after
            its descendants.
    """
    rows, heads = _split(query, query_indptr), Heads.of(query, keys.ty.shape[1])
    k, v, columns, length, place = _ragged(keys, values, key_indptr, rows)
    rope = (rotary_mode, rope_scale, rope_theta, _scaling(scaling, parameters))
    q = heads.turned(query, op.expand_dims(positions, [1, 2]), *rope)
    last = size(positions.ty.shape[0] - 1)
    k = heads.turned(k, _places(op.take(positions, op.minimum(place, last), 0)), *rope)
    return heads.weighted(q, k, v, _ancestors(columns, length, rows, tree_indptr, tree), scale)


@composite(PAGED_TREE)
def paged_tree_attention(
    query: Any, query_indptr: Any, pages: Any, page_indptr: Any, page_table: Any, lengths: Any,
    tree_indptr: Any, tree: Any, scale: Any,
) -> Any:  # fmt: skip
    """Return attention of trees of tokens to keys in pages, see `tree_attention`.

    `paged_prefill_attention` documents the other operands.
    """
    rows, heads = _split(query, query_indptr), Heads.of(query, pages.ty.shape[2])
    keys, values, columns, length = _paged(pages, page_indptr, page_table, lengths, rows)
    visible = _ancestors(columns, length, rows, tree_indptr, tree)
    return heads.weighted(query, keys, values, visible, scale)


def _scaling(name: Any, parameters: Numbers) -> RopeScaling:
    return RopeScaling(str(name), tuple(map(float, parameters)))


def _paged(
    pages: Any, indptr: Any, table: Any, lengths: Any, rows: Sequences
) -> tuple[Any, Any, Any, Any]:
    """The keys and values of each row, (rows, columns, groups, features), columns, and lengths."""
    page, entries = pages.ty.shape[3], table.ty.shape[0]
    begin, end = rows.first(indptr), rows.last(indptr)
    full = op.multiply(op.subtract(op.subtract(end, begin), number(1)), size(page))
    column = op.expand_dims(counted(entries * page), [0])
    if len(lengths.ty.shape) == 1:
        length, place = op.add(full, rows.first(lengths)), column
    else:
        last, shown, sink = (op.take(op.take(lengths, number(k), 0), rows.sequence, 0)
                             for k in range(3))  # fmt: skip
        length = op.add(op.subtract(op.add(full, last), shown), sink)
        place = op.where(op.less(column, sink), column, op.add(op.subtract(column, sink), shown))
    length = op.where(op.equal(begin, end), number(0), length)
    entry = op.add(begin, op.floor_divide(place, size(page)))
    chosen = op.take(table, op.minimum(entry, size(entries - 1)), 0)
    slot = op.add(op.floor_mod(place, size(page)), op.multiply(chosen, number(0)))
    gathered = op.gather_nd(
        op.permute_dims(pages, [0, 3, 1, 2, 4]),
        op.astype(op.stack([chosen, slot], axis=2), "int64"),
    )
    keys, values = (
        op.squeeze(op.strided_slice(gathered, [2], [k], [k + 1]), [2]) for k in range(2)
    )
    return keys, values, column, length


def _ragged(keys: Any, values: Any, indptr: Any, rows: Sequences) -> tuple[Any, Any, Any, Any, Any]:
    """The keys and values of each row, the columns, the number of keys, and their places."""
    count = keys.ty.shape[0]
    begin, end = rows.first(indptr), rows.last(indptr)
    column = op.expand_dims(counted(count), [0])
    place = op.minimum(op.add(begin, column), size(count - 1))
    k, v = (op.take(x, place, 0) for x in (keys, values))
    return k, v, column, op.subtract(end, begin), place


def _split(query: Any, indptr: Any) -> Sequences:
    return Sequences.of(indptr, query.ty.shape[0])


def _places(positions: Any) -> Any:
    """Positions of keys, (rows, columns), beside groups and features."""
    return op.expand_dims(positions, [2, 3])


def _visible(columns: Any, length: Any, rows: Sequences, causal: Any, window: int) -> Any:
    """Whether a row sees a column, (rows, columns)."""
    inside = op.less(columns, length)
    if window:
        past = op.maximum(op.subtract(number(window - 1), rows.row), number(0))
        first = op.maximum(op.subtract(length, past), number(0))
        seen = op.logical_and(inside, op.greater_equal(columns, first))
    else:
        end = op.add(op.add(op.subtract(length, rows.length), rows.row), number(1))
        seen = op.less(columns, end)
    return op.where(op.greater(causal, number(0)), seen, inside)


def _ancestors(columns: Any, length: Any, rows: Sequences, indptr: Any, tree: Any) -> Any:
    """Whether a column is before the tree of a row, or one of the row's ancestors."""
    begin, end = rows.first(indptr), rows.last(indptr)
    nodes = op.subtract(end, begin)
    start = op.subtract(length, nodes)
    child = op.add(begin, op.subtract(op.add(rows.row, nodes), rows.length))
    parent = op.add(begin, op.subtract(columns, start))
    last = size(tree.ty.shape[0] - 1)
    child, parent = (op.minimum(op.maximum(x, number(0)), last) for x in (child, parent))
    order = op.take(op.take(tree, number(0), 1), child, 0)
    first, after = (op.take(op.take(tree, number(k), 1), parent, 0) for k in range(2))
    above = op.logical_and(op.greater_equal(order, first), op.less(order, after))
    return op.logical_and(op.less(columns, length), op.logical_or(op.less(columns, start), above))
