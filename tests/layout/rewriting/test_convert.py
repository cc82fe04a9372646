"""Conversions between any two layouts, run against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import relax

from opinfo.layout.apply.conversion import LayoutConversion, converted, copy
from opinfo.layout.model.digit import Digit
from opinfo.layout.model.layout import Layout
from opinfo.layout.report.count import count
from tests.common.run import run

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
    step = LayoutConversion(shape, "float32", source, target)
    x = relax.Var("x", relax.TensorType(source.physical(shape), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(converted(x, step, builder.add_func))
        builder.emit_func_output(out)
    value = np.arange(1, 1 + math.prod(shape), dtype="float32").reshape(shape)
    (got,) = run(builder.get(), [source.move(value)])
    np.testing.assert_array_equal(got, target.move(value))


DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "bfloat16", "float32", "float64", "float8_e4m3fn")  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("pad", [0, None])
@pytest.mark.parametrize("channels", [6, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_any_type_are_converted_and_padded(
    dtype: str, channels: int, pad: int | None
) -> None:
    shape, target = (1, channels, 2, 2), Layout.parse("NCHW4c", pad_value=pad)
    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    step = LayoutConversion(shape, dtype, Layout.identity(4), target)
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(converted(x, step, builder.add_func))
        builder.emit_func_output(out)
    assert count(builder.get()).number == 1
    lowered = relax.transform.LegalizeOps()(builder.get())
    assert str(lowered["main"].ret_ty.dtype) == dtype
    if dtype in ("bfloat16", "float8_e4m3fn") or pad is None:
        return
    value = (np.arange(channels * 4).reshape(shape) % 3 == 0).astype(dtype)
    (got,) = run(lowered, [value])
    np.testing.assert_array_equal(got, target.move(value))


def test_a_copy_has_buffers_as_legalized_functions_have() -> None:
    func = copy(
        LayoutConversion((1, 6, 4, 5), "float32", Layout.parse("NCHW4c"), Layout.identity(4))
    )
    for p in func.params:
        assert {str(e.ty.dtype) for e in p.ty.shape} == {"int64"}
        assert str(p.ty.elem_offset.ty.dtype) == "int64"
