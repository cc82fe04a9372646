"""What is computed element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx import ForKind

from .fused import WIDTHS, at, built, fused_one, inputs, run, scheduled, target_lanes, target_of

op, nn = relax.op, relax.op.nn

CASES: dict[str, tuple[Any, Any, Any]] = {
    "chain": ([["n", 7, "m"]], lambda emit, x: nn.relu(emit(op.negative(x))),
              lambda x: np.maximum(-x, 0)),
    "broadcast": ([["n", 1, "m"], [7, "m"], [7, 1]],
                  lambda emit, x, y, z: op.multiply(emit(op.add(x, y)), z),
                  lambda x, y, z: (x + y) * z),
    "transpose": ([["n", 5, "m"]], lambda emit, x: op.permute_dims(x, [2, 0, 1]),
                  lambda x: x.transpose(2, 0, 1)),
    "tril": ([["n", "m"]], lambda emit, x: op.tril(x), np.tril),
    "concat": ([["n", 5], ["n", 6]], lambda emit, x, y: op.concat([x, y], axis=1),
               lambda x, y: np.concatenate([x, y], 1)),
    "pad": ([["n", 9]], lambda emit, x: nn.pad(x, (0, 0, 1, 2)),
            lambda x: np.pad(x, ((0, 0), (1, 2)))),
    "number": ([[]], lambda emit, x: op.exp(x), np.exp),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_same_as_numpy(name: str) -> None:
    shapes, expr, oracle = CASES[name]
    func = fused_one(shapes, expr)
    found = scheduled(func)
    assert found.rules == ("pointwise",) and not found.reasons
    kernel = built(found.func)
    for n, m in [(1, 1), (3, 7), (2, 64), (13, 33)]:
        sizes = {"n": n, "m": m}
        arrays = inputs(func, sizes)
        kernels = [kernel]
        if n == 3:
            kernels.append(built(scheduled(at(func, sizes)).func))
        for k in kernels:
            (got,) = run(k, arrays)
            np.testing.assert_allclose(got, oracle(*arrays[:-1]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mcpu", WIDTHS)
def test_what_moves_together_is_one_loop(mcpu: str) -> None:
    """105 elements: a loop of steps of four vectors, whole vectors, and one that overlaps."""
    func = fused_one([[3, 5, 7], [3, 5, 7]], lambda emit, x, y: op.add(x, y))
    found = scheduled(func, target_of(mcpu))
    loops, vectors = _loops(found.func)
    step = 4 * WIDTHS[mcpu]
    assert loops == ([105 // step] if 105 // step > 1 else [])
    assert set(vectors) == {WIDTHS[mcpu]}
    if WIDTHS[mcpu] <= target_lanes():
        arrays = inputs(func, {})
        (got,) = run(built(found.func, target_of(mcpu)), arrays)
        np.testing.assert_array_equal(got, arrays[0] + arrays[1])


def _loops(func: Any) -> tuple[list[int], list[int]]:
    """The extents of serial loops, and of vectors."""
    found: dict[Any, list[int]] = {ForKind.SERIAL: [], ForKind.VECTORIZED: []}

    def note(loop: Any) -> None:
        found.get(ForKind(loop.kind), []).append(int(loop.extent))

    tvm_ffi.structural_walk(func.body, (tirx.For, note))
    return found[ForKind.SERIAL], found[ForKind.VECTORIZED]


def test_rows_are_gathered() -> None:
    func = fused_one([[50, 33], ["n"]], lambda emit, x, i: op.take(x, i, axis=0, mode="clip"),
                     ["float32", "int64"])  # fmt: skip
    arrays = inputs(func, {"n": 7})
    (got,) = run(built(scheduled(func).func), arrays)
    np.testing.assert_array_equal(got, arrays[0][np.clip(arrays[1], 0, 49)])
