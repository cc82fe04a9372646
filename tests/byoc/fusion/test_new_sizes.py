"""What has a size that is data is computed after it: no edge of the graph says so."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx

import opinfo


def _counted(by_shape: bool) -> tvm.IRModule:
    """``scale * arange(n)`` for the positive elements of a vector, of which there are n."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([5], "float32"))
    n = tirx.Var("n", "int64")
    with builder.function("main", [x]):
        with builder.dataflow():
            emit, op = builder.emit, relax.op
            zero = relax.const(0.0, "float32")
            scale = emit(op.multiply(emit(op.max(x)), relax.const(2.0, "float32")))
            positive = emit(op.greater(x, zero))
            if by_shape:
                count = emit(op.sum(emit(op.astype(positive, "int64")), keepdims=True))
                shape = emit(op.tensor_to_shape(count))
                builder.match_cast(shape, relax.ShapeType([n]))
            else:
                builder.match_cast(emit(op.nonzero(positive)), relax.TensorType([1, n], "int64"))
            places = emit(op.astype(emit(op.arange(0, n, 1, "int64")), "float32"))
            result = builder.emit_output(emit(op.multiply(places, scale)))
        builder.emit_func_output(result)
    return builder.get()


def _check(by_shape: bool) -> None:
    compiled = opinfo.compile(_counted(by_shape), [])
    for numbers in ([1, -2, 3, 4, -5], [-1, -2, -3, -4, -5], [2, 1, 1, 1, 1]):
        x = np.array(numbers, "float32")
        expected = np.arange((x > 0).sum(), dtype="float32") * x.max() * 2
        np.testing.assert_allclose(compiled.run(x), expected)


def test_a_size_from_a_tensor() -> None:
    _check(True)


def test_a_size_of_what_a_kernel_finds() -> None:
    _check(False)
