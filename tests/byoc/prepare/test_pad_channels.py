"""A fourth channel for images: which convolutions get it, and the same sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.prepare.gpu.pad_channels import pad_channels

from ...common.run import run

nn, op = relax.op.nn, relax.op


def net(
    shape: tuple[Any, ...], kernel: tuple[int, ...], *, dtype: str = "float16",
    data: str = "NCHW", layout: str = "OIHW", groups: int = 1, given: bool = False,
) -> Any:  # fmt: skip
    x = relax.Var("x", relax.TensorType(shape, dtype))
    numbers = np.random.default_rng(0).standard_normal(kernel).astype(dtype)
    w = relax.Var("w", relax.TensorType(kernel, dtype)) if given else relax.const(numbers, dtype)
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w] if given else [x]):
        with builder.dataflow():
            out = builder.emit_output(
                nn.conv2d(
                    x,
                    w,
                    strides=2,
                    padding=1,
                    groups=groups,
                    data_layout=data,
                    kernel_layout=layout,
                )
            )
        builder.emit_func_output(out)
    return builder.get()


PADDED: dict[str, tuple[Any, tuple[int, ...]]] = {
    "channels first": (net((2, 3, 8, 9), (5, 3, 3, 3)), (2, 4, 8, 9)),
    "channels last": (net((2, 8, 9, 3), (3, 3, 3, 5), data="NHWC", layout="HWIO"), (2, 8, 9, 4)),
    "one channel": (net((2, 1, 8, 9), (5, 1, 3, 3)), (2, 4, 8, 9)),
}  # fmt: skip
STAYS = {
    "enough channels": net((2, 4, 8, 9), (5, 4, 3, 3)),
    "float32": net((2, 3, 8, 9), (5, 3, 3, 3), dtype="float32"),
    "grouped": net((2, 3, 8, 9), (3, 1, 3, 3), groups=3),
    "weights of the caller": net((2, 3, 8, 9), (5, 3, 3, 3), given=True),
}


@pytest.mark.parametrize("name", PADDED)
def test_sums_are_the_same(name: str) -> None:
    before, shape = PADDED[name]
    after = pad_channels(before)
    first = after["main"].body.blocks[0].bindings[0].value
    assert first.op.name == "relax.nn.pad" and tuple(map(int, first.ty.shape.values)) == shape
    size = [int(e) for e in before["main"].params[0].ty.shape.values]
    x = np.random.default_rng(1).standard_normal(size).astype("float16")
    np.testing.assert_allclose(run(after, [x])[0], run(before, [x])[0], 2e-3, 2e-3)


@pytest.mark.parametrize("name", STAYS)
def test_other_convolutions_are_not_padded(name: str) -> None:
    tvm.ir.assert_structural_equal(pad_channels(STAYS[name]), STAYS[name])
