"""Reads and copies in the pages of a cache, defined in Relax operators.

A cache is (pages, 2, heads, page_size, features): the keys, then the values, of the tokens in each
page. `scattered` has the stores of new tokens.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.relax import op

from .defining.composite import composite

COPY = "relax.nn.copy_page"
READ = "relax.nn.read_from_pages"
MOVE = "relax.nn.move_in_pages"


@composite(COPY)
def copy_page(pages: Any, source: Any, target: Any, length: Any) -> Any:
    """Return a paged cache after a copy of the first tokens of a page to another page.

        out[target, .., slot, d] = pages[source, .., slot, d]    for slot < length

    Args:
        pages: (pages, .., page_size, features).
        source: The page that is copied, an integer without dimensions.
        target: The page that is changed, an integer without dimensions of the same dtype.
        length: The number of tokens, an integer without dimensions of the same dtype.
    """
    rank = len(pages.ty.shape)
    kinds = {str(x.ty.dtype) for x in (source, target, length)}
    if rank < 3 or len(kinds) != 1 or "int" not in (kind := kinds.pop()):
        raise ValueError(f"{COPY}: {pages.ty}, {source.ty}, {target.ty}, {length.ty}")
    page = op.expand_dims(_range(pages.ty.shape[0], kind), list(range(1, rank)))
    slot = op.expand_dims(_range(pages.ty.shape[rank - 2], kind), [1])
    copied = op.logical_and(op.equal(page, target), op.less(slot, length))
    return op.where(copied, op.expand_dims(op.take(pages, source, 0), [0]), pages)


@composite(READ)
def read_from_pages(pages: Any, positions: Any, keys: Any, values: Any, layer: Any) -> Any:
    """Return keys and values of a layer, read from a paged cache; other layers are as before.

        page, slot = positions[k] // page_size, positions[k] % page_size
        out_keys[layer, k, h, d] = pages[page, 0, h, slot, d]
        out_values[layer, k, h, d] = pages[page, 1, h, slot, d]

    Args:
        pages: (pages, 2, heads, page_size, features).
        positions: (tokens,), integers: places in the pages, counted through all pages.
        keys: (layers, tokens, heads, features): the old content of the first result.
        values: As the keys: the old content of the second result.
        layer: The layer that is changed, an integer without dimensions.
    """
    if len(pages.ty.shape) != 5 or len(positions.ty.shape) != 1 or len(keys.ty.shape) != 4:
        raise ValueError(f"{READ}: {pages.ty}, {positions.ty}, {keys.ty}")
    place = op.astype(positions, "int64")
    size = pages.ty.shape[3]
    rows = op.stack([op.floor_divide(place, size), op.floor_mod(place, size)], axis=1)
    tokens = op.gather_nd(op.permute_dims(pages, [0, 3, 1, 2, 4]), rows)
    kind = str(layer.ty.dtype)
    chosen = op.expand_dims(op.equal(_range(keys.ty.shape[0], kind), layer), [1, 2, 3])
    read = (op.squeeze(op.strided_slice(tokens, [1], [k], [k + 1]), [1]) for k in range(2))
    return tuple(
        op.where(chosen, op.expand_dims(x, [0]), old)
        for x, old in zip(read, (keys, values), strict=True)
    )


@composite(MOVE)
def move_in_pages(pages: Any, indptr: Any, positions: Any) -> Any:
    """Return a paged cache after some of its tokens are stored at other positions.

        page, slot = positions[1, k] // page_size, positions[1, k] % page_size
        out[page, :, h, slot, d] = the token at positions[0, k] in ``pages``

    Args:
        pages: (pages, 2, heads, page_size, features).
        indptr: (sequences + 1,): token k moves if it is not before the first of these numbers, and
            before the last one.
        positions: (2, tokens), integers as ``indptr``: the old and the new positions, counted
            through all pages.
    """
    shape, kind = list(pages.ty.shape), str(positions.ty.dtype)
    if len(shape) != 5 or len(positions.ty.shape) != 2 or len(indptr.ty.shape) != 1:
        raise ValueError(f"{MOVE}: {pages.ty}, {indptr.ty}, {positions.ty}")
    size, order = _number(shape[3], kind), [0, 3, 1, 2, 4]
    count, ends = positions.ty.shape[1], indptr.ty.shape[0] - 1
    old, new = (op.squeeze(op.strided_slice(positions, [0], [k], [k + 1]), [0]) for k in range(2))
    token = _range(count, kind)
    starts = op.take(indptr, op.multiply(_range(2, kind), _number(ends, kind)), 0)
    first, last = (op.strided_slice(starts, [0], [k], [k + 1]) for k in range(2))
    moves = op.logical_and(op.less_equal(first, token), op.less(token, last))
    rows = op.permute_dims(pages, order)
    spare = op.zeros([1, *(shape[k] for k in order[1:])], str(pages.ty.dtype))
    source = op.stack([op.floor_divide(old, size), op.floor_mod(old, size)], axis=1)
    page = op.floor_divide(new, size)
    behind = op.add(op.multiply(page, tirx.const(0, kind)), _number(shape[0], kind))
    page = op.where(moves, page, behind)
    target = op.stack([page, op.floor_mod(new, size)], axis=1)
    moved = op.gather_nd(rows, op.astype(source, "int64"))
    stored = op.scatter_nd(op.concat([rows, spare], axis=0), target, moved, "update")
    kept = op.take(stored, op.arange(0, shape[0], 1, "int64"), 0)
    return op.permute_dims(kept, [0, 2, 3, 1, 4])


def _number(value: Any, dtype: str) -> Any:
    """A size as a number of a dtype."""
    return value if dtype == "int64" else tirx.Cast(dtype, value)


def _range(extent: Any, dtype: str) -> Any:
    """The numbers below an extent."""
    numbers = op.arange(0, extent, 1, "int64")
    return numbers if dtype == "int64" else op.astype(numbers, dtype)
