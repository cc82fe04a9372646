"""Conversions between any two layouts, run against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import relax

from opinfo.layout.convert import Step, converted, copy
from opinfo.layout.layout import Digit, Layout
from tests.run import run

FUSED = Layout(((Digit(0),), (Digit(2), Digit(1)), (Digit(3),)))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Layout.identity(4), Layout.parse("NHWC")),
        (Layout.parse("NHWC"), Layout.parse("NCHW4c")),
        (Layout.parse("NCHW4c"), Layout.identity(4)),
        (Layout.parse("NCHW4c"), Layout.parse("NCHW8c")),
        (FUSED, Layout.parse("NHWC")),
        (Layout.identity(4), FUSED),
    ],
)
@pytest.mark.parametrize("shape", [(1, 6, 4, 5), (2, 8, 3, 3)])
def test_a_conversion_moves_every_element(
    source: Layout, target: Layout, shape: tuple[int, ...]
) -> None:
    step = Step(shape, "float32", source, target)
    x = relax.Var("x", relax.TensorType(source.physical(shape), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(converted(x, step, builder.add_func))
        builder.emit_func_output(out)
    value = np.arange(1, 1 + math.prod(shape), dtype="float32").reshape(shape)
    (got,) = run(builder.get(), [source.move(value)])
    np.testing.assert_array_equal(got, target.move(value))


def test_a_copy_has_buffers_as_legalized_functions_have() -> None:
    func = copy(Step((1, 6, 4, 5), "float32", Layout.parse("NCHW4c"), Layout.identity(4)))
    for p in func.params:
        assert {str(e.ty.dtype) for e in p.ty.shape} == {"int64"}
        assert str(p.ty.elem_offset.ty.dtype) == "int64"
