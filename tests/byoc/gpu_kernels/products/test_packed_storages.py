"""Kernels of few rows for packed weights in other storages; the oracle is numpy.

`tests.common.machine` executes the kernels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.language.storages import Storage, prim_func
from opinfo.byoc.backends.nvidia.grouped_weights.gemv_kernel import gemv_kernel, packed_scheduled
from opinfo.byoc.backends.nvidia.grouped_weights.grouped_product import grouped_product
from opinfo.byoc.backends.nvidia.schedules.program.thread_loops import kernels

from ....common.machine import execute

Array = np.ndarray[Any, Any]


def values_of(words: Array, axis: int, size: int, s: Storage) -> Array:
    """The values in words, along an axis, as integers."""
    if s.bits == 8 and s.is_byte:
        return np.asarray(words.astype(int))
    words = np.moveaxis(words, axis, -1).astype("int64")
    shifts = s.bits * np.arange(s.per_word)
    out = ((words[..., None] >> shifts) & ((1 << s.bits) - 1)).reshape(len(words), -1)
    return np.moveaxis(out[:, :size], -1, axis)


def inputs_of(rows: int, columns: int, depth: int, s: Storage) -> tuple[list[Array], Array]:
    """Random operands, and the weights in rows of columns."""
    rng, shapes = np.random.default_rng(0), s.shapes(columns, depth)
    limits = np.iinfo(s.dtype)
    words = rng.integers(limits.min, limits.max, shapes[0], s.dtype, endpoint=True)
    scale = rng.random(shapes[1])
    values = values_of(words, s.along, depth, s).astype(float) - s.offset
    operands = [rng.standard_normal((1, rows, depth)), words, scale]
    if s.zeros is not None:
        if isinstance(s.zeros, str):
            zeros = zero = rng.integers(0, 9, shapes[2]).astype(s.zeros)
        else:
            zeros = rng.integers(limits.min, limits.max, shapes[2], s.dtype, endpoint=True)
            zero = values_of(zeros, s.zeros, scale.shape[s.zeros], s)
        values = values - np.take(zero.repeat(s.group, s.along), range(depth), s.along)
        operands.append(zeros)
    weights = values * np.take(scale.repeat(s.group, s.along), range(depth), s.along)
    return operands, weights if s.along else weights.T


Q3 = Storage(bits=3, group=40, offset=3)
COLUMNS = Storage(offset=7, along=0)
CASES = {
    "q3": (1, 8, 320, Q3),
    "q3, the last group is not full": (2, 4, 256, Q3),
    "q3, several warps, the last one not full": (1, 4, 4096, Q3),
    "q4f16_0": (1, 64, 256, COLUMNS),
    "q4f16_0, several rows": (5, 32, 512, COLUMNS),
    "q4f16_0, the last warp is not full": (2, 32, 416, COLUMNS),
    "q3 beside each other, the last word is not full": (1, 32, 256, replace(Q3, along=0)),
    "two bits beside each other": (1, 32, 256, Storage(bits=2, group=64, offset=1, along=0)),
    "float zero points": (2, 8, 256, Storage(zeros="float16")),
    "integer zero points and an offset": (1, 8, 256, Storage(zeros="int8", offset=1)),
    "packed zero points": (1, 8, 512, Storage(zeros=1)),
    "zero points packed over columns": (1, 8, 256, Storage(zeros=0)),
    "GPTQ": (3, 32, 256, Storage(zeros=1, offset=1, along=0, dtype="int32", group=128)),
    "zero points beside each other": (1, 32, 512, Storage(zeros=0, along=0)),
    "bytes of two values": (2, 8, 256, Storage(dtype="uint8", offset=8)),
    "signed bytes of two values": (1, 8, 256, Storage(dtype="int8", offset=8, zeros="float16")),
    "signed bytes": (2, 8, 256, Storage(bits=8, dtype="int8")),
    "bytes with zero points": (1, 8, 256, Storage(bits=8, dtype="uint8", zeros="uint8")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_multiplies(name: str) -> None:
    rows, columns, depth, storage = CASES[name]
    func = prim_func(rows, columns, depth, storage)
    nest, buffers = gemv_kernel(grouped_product(func))
    operands, weights = inputs_of(rows, columns, depth, storage)
    (got,) = execute(kernels(func, [nest], buffers), operands)
    np.testing.assert_allclose(got, operands[0] @ weights.T, 1e-9, 1e-9)


@pytest.mark.parametrize("name", ["q3, the last group is not full", "GPTQ", "bytes of two values"])
def test_infinite_activations_are_multiplied_as_numpy_does(name: str) -> None:
    """One is infinite in the first row; the others are finite."""
    rows, columns, depth, storage = CASES[name]
    func = prim_func(rows, columns, depth, storage)
    operands, weights = inputs_of(rows, columns, depth, storage)
    x = operands[0]
    x[0, 0, 255] = np.inf
    with np.errstate(invalid="ignore"):
        want = np.stack([np.sum(x[0] * row, -1) for row in weights], -1)[None]
        (got,) = execute(packed_scheduled(func), operands)
    assert np.isinf(want[0, 0]).any() and np.isfinite(want[0, 1:]).all()
    np.testing.assert_allclose(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("size", "storage", "reason"),
    [
        ((1, 24, 256), COLUMNS, "do not fill lines"),
        ((1, 32, 256), Storage(dtype="uint8", along=0), "do not fill lines"),
        ((1, 8, 256), Storage(bits=2, dtype="uint8"), "2 bits in uint8"),
        ((1, 8, 252), Q3, "do not divide into vectors of 8"),
        ((1, 8, 300), Storage(bits=3, group=30, offset=3), "do not fill vectors"),
        ((9, 32, 256), COLUMNS, "9 rows"),
    ],
)
def test_other_storages_are_refused(
    size: tuple[int, int, int], storage: Storage, reason: str
) -> None:
    refused = packed_scheduled(prim_func(*size, storage))
    assert not refused and reason in refused.reason
