"""Kernels of few rows for packed weights in other storages; the oracle is numpy.

`tests.machine` executes the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from opinfo.byoc.backends.nvidia.grouped_weights.gemv_kernel import gemv_kernel, packed_scheduled
from opinfo.byoc.backends.nvidia.grouped_weights.grouped_product import grouped_product
from opinfo.byoc.backends.nvidia.schedules.program.thread_loops import kernels

from ..machine import execute

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Storage:
    """How weights of (columns, depth), or transposed, are stored; ``zeros``: none, a dtype, or
    the axis along which zero points are packed."""

    bits: int = 4
    group: int = 32
    offset: int = 0
    dtype: str = "uint32"
    along: int = 1
    zeros: str | int | None = None

    @property
    def per_word(self) -> int:
        return int(np.dtype(self.dtype).itemsize * 8 // self.bits)

    def shapes(self, columns: int, depth: int) -> list[tuple[int, int]]:
        """The shapes of words, scales and zero points."""
        groups = -(-depth // self.group)
        words = -(-groups * self.group // self.per_word)
        out = [(columns, words), (columns, groups), (columns, groups)]
        if (self.zeros == 0 and self.along) or (self.zeros == 1 and not self.along):
            out[2] = (-(-columns // self.per_word), groups)
        elif self.zeros in (0, 1):
            out[2] = (columns, -(-groups // self.per_word))
        return out if self.along else [(b, a) for a, b in out]


def digit(words: Any, at: tuple[Any, Any], axis: int, s: Storage) -> Any:
    """The value at an element, of words packed along an axis."""
    at_word = list(at)
    at_word[axis] = at[axis] // s.per_word
    word = words[tuple(at_word)]
    if s.bits == 8 and s.dtype in ("int8", "uint8"):
        return word
    amount = tirx.Cast(s.dtype, at[axis] % s.per_word * s.bits)
    return tirx.bitwise_and(word >> amount, tirx.const((1 << s.bits) - 1, s.dtype))


def product(rows: int, columns: int, depth: int, s: Storage) -> Any:
    """A PrimFunc: a dequantisation and a product of the weights with rows."""
    shapes, kind = s.shapes(columns, depth), "float16"
    dtypes = [s.dtype, kind, s.zeros if isinstance(s.zeros, str) else s.dtype]
    inputs = [te.placeholder(shape, dtype, name=name) for shape, dtype, name in
              zip(shapes, dtypes, ("words", "scale", "zeros"), strict=True)]  # fmt: skip
    words, scale, zeros = inputs

    def value(i: Any, j: Any) -> Any:
        at = (i, j // s.group) if s.along else (i // s.group, j)
        out = tirx.Cast(kind, digit(words, (i, j), s.along, s))
        if s.offset:
            out = out - tirx.const(s.offset, kind)
        if s.zeros is not None:
            zero = zeros[at] if isinstance(s.zeros, str) else digit(zeros, at, s.zeros, s)
            out = out - tirx.Cast(kind, zero)
        return out * scale[at]

    w = te.compute((columns, depth) if s.along else (depth, columns), value, name="w")
    x = te.placeholder((1, rows, depth), kind, name="x")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((1, rows, columns), lambda b, i, j: te.sum(
        x[b, i, k] * w[(j, k) if s.along else (k, j)], k), "y")  # fmt: skip
    used = inputs if s.zeros is not None else inputs[:2]
    return te.create_prim_func([x, *used, y]).with_attr("tirx.noalias", True)


def values_of(words: Array, axis: int, size: int, s: Storage) -> Array:
    """The values in words, along an axis, as integers."""
    if s.bits == 8 and s.dtype in ("int8", "uint8"):
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
    spread = dict(repeats=s.group, axis=s.along)
    if s.zeros is not None:
        if isinstance(s.zeros, str):
            zeros = zero = rng.integers(0, 9, shapes[2]).astype(s.zeros)
        else:
            zeros = rng.integers(limits.min, limits.max, shapes[2], s.dtype, endpoint=True)
            zero = values_of(zeros, s.zeros, scale.shape[s.zeros], s)
        values = values - np.take(zero.repeat(**spread), range(depth), s.along)
        operands.append(zeros)
    weights = values * np.take(scale.repeat(**spread), range(depth), s.along)
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
    func = product(rows, columns, depth, storage)
    nest, buffers = gemv_kernel(grouped_product(func))
    operands, weights = inputs_of(rows, columns, depth, storage)
    (got,) = execute(kernels(func, [nest], buffers), operands)
    np.testing.assert_allclose(got, operands[0] @ weights.T, 1e-9, 1e-9)


@pytest.mark.parametrize("name", ["q3, the last group is not full", "GPTQ", "bytes of two values"])
def test_infinite_activations_are_multiplied_as_numpy_does(name: str) -> None:
    """One is infinite in the first row; the others are finite."""
    rows, columns, depth, storage = CASES[name]
    func = product(rows, columns, depth, storage)
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
        ((1, 8, 252), Q3, "no vectors of 8"),
        ((1, 8, 300), Storage(bits=3, group=30, offset=3), "do not fill vectors"),
        ((9, 32, 256), COLUMNS, "9 rows"),
    ],
)
def test_other_storages_are_refused(
    size: tuple[int, int, int], storage: Storage, reason: str
) -> None:
    refused = packed_scheduled(product(*size, storage))
    assert not refused and reason in refused.reason
