"""How layouts flow through PrimFuncs, from access functions alone."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax

from opinfo.layout import Digit, Layout
from opinfo.layout.access.flow import BlockGraph, flow

from ...common.prim_funcs import lowered

IMAGE = (2, 16, 8, 6)
nn = relax.op.nn


def named(text: str) -> Layout:
    return Layout.parse(text)


def spread(found: BlockGraph, param: int, layout: Layout) -> tuple[Any, ...] | None:
    """The layouts of all parameters, given that of one."""
    buffer = found.params[param]
    assert buffer is not None
    known = found.spread({buffer: layout})
    return None if known is None else tuple(known[b] for b in found.params if b is not None)


CARRIED = {
    "relu": (lowered(nn.relu, IMAGE), "NHWC", ("NHWC", "NHWC")),
    "relu, packed": (lowered(nn.relu, IMAGE), "NCHW4c", ("NCHW4c", "NCHW4c")),
    "softmax": (lowered(nn.softmax, IMAGE), "NHWC", ("NHWC", "NHWC")),
    "pool": (lowered(lambda x: nn.max_pool2d(x, (3, 3), (2, 2), 1), IMAGE), "NCHW8c",
             ("NCHW8c", "NCHW8c")),
    "mean": (lowered(lambda x: relax.op.mean(x, [2, 3], keepdims=True), IMAGE), "NHWC",
             ("NHWC", "NHWC")),
    "bias": (lowered(relax.op.add, IMAGE, (1, 16, 1, 1)), "NHWC", ("NHWC", "NHWC", "NHWC")),
    "scale": (lowered(relax.op.multiply, IMAGE, (16, 1, 1)), "NHWC",
              ("NHWC", Layout.permuted((1, 2, 0)), "NHWC")),
    "pad": (lowered(lambda x: nn.pad(x, (0, 0, 0, 0, 1, 1, 1, 1)), IMAGE), "NHWC",
            ("NHWC", "NHWC")),
    "split": (lowered(lambda x: relax.op.split(x, 2, 1), IMAGE), "NCHW4c",
              ("NCHW4c", "NCHW4c", "NCHW4c")),
    "slice": (lowered(lambda x: relax.op.strided_slice(x, [1], [4], [12]), IMAGE), "NCHW4c",
              ("NCHW4c", "NCHW4c")),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_pushed_forward_from_the_first_operand(name: str) -> None:
    func, layout, expected = CARRIED[name]
    assert spread(flow(func), 0, named(layout)) == tuple(
        x if isinstance(x, Layout) else named(x) for x in expected
    )


@pytest.mark.parametrize("name", CARRIED)
def test_pulled_back_from_the_result(name: str) -> None:
    func, layout, expected = CARRIED[name]
    assert spread(flow(func), len(expected) - 1, named(layout)) == tuple(
        x if isinstance(x, Layout) else named(x) for x in expected
    )


def test_a_convolution_carries_space_and_frees_channels() -> None:
    found = flow(lowered(lambda x, w: nn.conv2d(x, w, padding=1), IMAGE, (4, 16, 3, 3)))
    x, _, y = (b for b in found.params if b is not None)
    mixed = found.spread({x: named("NCHW"), y: named("NHWC")})
    assert mixed is not None
    assert found.spread({x: named("NCWH"), y: named("NHWC")}) is None


def test_digits_of_a_reshape_line_up() -> None:
    found = flow(lowered(lambda x: relax.op.reshape(x, (2, 4, 4, 8, 6)), IMAGE))
    assert spread(found, 0, named("NHWC")) == (named("NHWC"), Layout.permuted((0, 3, 4, 1, 2)))
    split = Layout(((Digit(0),), (Digit(2),), (Digit(3),), (Digit(1, 1, 4), Digit(1, 4))))
    assert spread(found, 0, split) == (split, Layout.permuted((0, 3, 4, 2, 1)))


def test_flattened_channels_are_digits_of_one_axis() -> None:
    found = flow(lowered(lambda x: relax.op.reshape(x, (2, 768)), IMAGE))
    flat = Layout(((Digit(0),), (Digit(1, 1, 48), Digit(1, 48))))
    assert spread(found, 0, named("NHWC")) == (named("NHWC"), flat)


def test_a_transpose_that_is_none() -> None:
    found = flow(lowered(lambda x: relax.op.permute_dims(x, [0, 2, 3, 1]), IMAGE))
    assert spread(found, 1, Layout.identity(4)) == (named("NHWC"), Layout.identity(4))


@pytest.mark.parametrize(
    "func",
    [
        lowered(lambda x: relax.op.strided_slice(x, [1], [3], [11]), IMAGE),
        lowered(lambda x: relax.op.split(x, [6], 1), IMAGE),
        lowered(lambda a, b: relax.op.concat([a, b], 1), (2, 6, 8, 6), (2, 10, 8, 6)),
        lowered(lambda x: relax.op.flip(x, 1), IMAGE),
    ],
)
def test_offsets_must_be_multiples_of_the_packing(func: Any) -> None:
    assert spread(flow(func), 0, named("NCHW4c")) is None


@pytest.mark.parametrize("axis", [0, 2])
def test_a_gather_along_another_axis(axis: int) -> None:
    func = lowered(lambda x, i: relax.op.take(x, i, axis), IMAGE, ((5,), "int64"))
    found = spread(flow(func), 0, named("NHWC"))
    assert found is not None
    assert found[2] == named("NHWC")


def test_a_plain_operand_may_have_other_free_axes() -> None:
    """A matmul reads either operand in any order of its reduction axis."""
    found = flow(lowered(relax.op.matmul, (5, 8), (8, 7)))
    a, b, c = (x for x in found.params if x is not None)
    seeds = {c: Layout.identity(2), a: Layout.identity(2)}
    known = found.spread(seeds)
    assert known is not None
    assert found.admits(known, b, Layout.permuted((1, 0)), seeds)
