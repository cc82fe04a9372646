"""What TVM's intrinsics of tensor cores do, for `tests.common.machine`.

Each thread has whole tiles of 16 x 16 elements: all threads of a warp compute the same ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..interpret import Undefined

SIDE = 16
Array = np.ndarray[Any, Any]


def run(machine: Any, call: Any, mask: Array) -> bool:
    """Execute a call for the threads that run; False if it is something else."""
    name = str(getattr(getattr(call, "op", None), "name", "")).split(".")[-1]
    if name == "tvm_fill_fragment":
        tile, _, _, _, index, value = call.args
        _put(machine, tile, index, np.full((SIDE, SIDE), float(value.value)), mask)
    elif name == "tvm_load_matrix_sync":
        tile, _, _, _, index, pointer, stride, layout = call.args
        memory, row, at = _elements(machine, pointer, stride, layout.value, mask)
        if not memory.written[row, at].all():
            raise Undefined("a tile reads elements that were not written")
        _put(machine, tile, index, memory.values[row, at], mask)
    elif name == "tvm_mma_sync":
        to, k, left, i, right, j, old, n = call.args
        a, b, c = (_get(machine, t, x, mask) for t, x in ((left, i), (right, j), (old, n)))
        _put(machine, to, k, a @ b + c, mask)
    elif name == "tvm_store_matrix_sync":
        tile, _, _, _, index, pointer, stride, layout = call.args
        memory, row, at = _elements(machine, pointer, stride, layout.value, mask)
        memory.values[row, at] = _get(machine, tile, index, mask)
        memory.written[row, at] = True
    else:
        return False
    return True


def _buffer(machine: Any, data: Any) -> Any:
    return machine.buffers[data.args[0] if hasattr(data, "args") else data]


def _elements(
    machine: Any, pointer: Any, stride: Any, layout: str, mask: Array
) -> tuple[Any, Array, Array]:
    """The memory behind a pointer, and the row and the positions of a tile's elements."""
    _, data, start, _, _ = pointer.args
    memory = _buffer(machine, data).memory
    assert memory.scope.startswith("shared"), "a tile is loaded from other memory"
    step, (i, j) = machine.number(stride), np.indices((SIDE, SIDE))
    place = i * step + j if layout == "row_major" else j * step + i
    first = np.broadcast_to(np.asarray(machine.value(start, mask)), (machine.count,))[mask]
    assert not (first % SIDE).any() and step % 8 == 0, "a tile is not aligned"
    at = first[:, None, None] + place
    if (at < 0).any() or (at >= memory.size).any():
        raise Undefined("a tile is outside of its buffer")
    return memory, memory.owner[mask][:, None, None], at


def _get(machine: Any, data: Any, index: Any, mask: Array) -> Array:
    memory, first = _buffer(machine, data).memory, machine.number(index) * SIDE * SIDE
    values = memory.values[mask, first : first + SIDE * SIDE]
    if not memory.written[mask, first : first + SIDE * SIDE].all():
        raise Undefined("a tile is read that was not written")
    return np.asarray(values.reshape(-1, SIDE, SIDE))


def _put(machine: Any, data: Any, index: Any, tiles: Array, mask: Array) -> None:
    memory, first = _buffer(machine, data).memory, machine.number(index) * SIDE * SIDE
    tiles = np.broadcast_to(tiles, (int(mask.sum()), SIDE, SIDE)).reshape(-1, SIDE * SIDE)
    memory.values[mask, first : first + SIDE * SIDE] = tiles
    memory.written[mask, first : first + SIDE * SIDE] = True
