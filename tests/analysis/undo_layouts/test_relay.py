"""Layouts after a change: what is read back from buffers that a Schedule has moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.analysis import LayoutNormalised, Refusal, layout_normalised, op_info, op_infos
from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.analysis.support.tvm_compat import StmtSimplify

from ...relaid.check import Wrong, check
from ...relaid.random_operator import Operator, lower
from ...relaid.transforms import buffer, buffers
from ...relaid.trial import SIZES, trial

OPS = relax.op
Map = Callable[..., Any]
#: The cases that run here, three of each family; `benchmarks.relaid` runs as many as asked.
SEEDS = range(66)


@pytest.fixture(scope="module")
def trials() -> list[Any]:
    return [trial(seed) for seed in SEEDS]


def test_no_answer_after_random_layouts_is_wrong(trials: list[Any]) -> None:
    assert not [t for t in trials if t.status == "wrong"]


def test_most_operators_are_recovered_after_random_layouts(trials: list[Any]) -> None:
    moved = [t for t in trials if t.status in ("recovered", "refused")]
    refused = [(t.seed, t.detail) for t in moved if t.status == "refused"]
    assert len(moved) >= 55 and len(refused) <= len(moved) // 10, refused


# ---------------------------------------------------------------------------- chosen layouts


def moved(op: Operator, maps: dict[int, Map], pad: float | None = None) -> Any:
    """The operator's PrimFunc, parameters by position in other layouts."""
    func = copied(lower(op))
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": func}))
    params = sch.mod["main"].params
    for block, place, source in [(b, p, buffer(sch, b, p)) for _, b, p in buffers(sch)]:
        fn = next((maps.get(k) for k, p in enumerate(params) if p.same_as(source)), None)
        if fn is not None:
            extra = {} if pad is None else {"pad_value": pad}
            sch.transform_layout(block, place, fn, **extra)
    return StmtSimplify()(sch.mod)["main"]


def conv(n: int | str = 1, **attrs: Any) -> Operator:
    operands = (((n, 8, 6, 8), "float32"), ((8, 8, 3, 3), "float32"))
    return Operator("conv", lambda x, w: OPS.nn.conv2d(x, w, **attrs), operands)


def unary(name: str, *shape: int | str, **attrs: Any) -> Operator:
    fn: Any = OPS
    for part in name.split("."):
        fn = getattr(fn, part)
    return Operator(name, lambda x: fn(x, **attrs), ((shape, "float32"),))


def nchw4c(n: Any, c: Any, h: Any, w: Any) -> Any:
    return n, c // 4, h, w, c % 4


CASES: dict[str, tuple[Operator, dict[int, Map], str, tuple[str, ...]]] = {
    "batch 1, CHWN data, NHW4wC output": (
        conv(),
        {0: lambda n, c, h, w: (c, h, w, n), 2: lambda n, c, h, w: (n, h, w // 2, w % 2, c)},
        "relax.nn.conv2d", ("CHWN", "OIHW", "NHW2wC"),
    ),
    "all packed alike": (
        conv("n", padding=(1, 1)),
        {0: nchw4c, 1: lambda o, i, h, w: (o // 4, i // 4, h, w, i % 4, o % 4), 2: nchw4c},
        "relax.nn.conv2d", ("NCHW4c", "OIHW4i4o", "NCHW4c"),
    ),
    "a dimension packed twice": (
        conv(2),
        {0: lambda n, c, h, w: (n, c // 4, h, w, c // 2 % 2, c % 2)},
        "relax.nn.conv2d", ("", "OIHW", "NCHW"),  # TVM has one factor an axis
    ),
    "fused data, read through a padding": (
        conv(2, padding=(1, 1)),
        {0: lambda n, c, h, w: (n, c, h * 8 + w)},
        "relax.nn.conv2d", ("", "OIHW", "NCHW"),
    ),
    "fused output": (
        conv(2, strides=(2, 2)),
        {2: lambda n, c, h, w: (n * 8 + c, h, w)},
        "relax.nn.conv2d", ("NCHW", "OIHW", ""),
    ),
    "softmax of packed data": (
        unary("nn.softmax", 2, 8, 3, 3, axis=1), {0: nchw4c, 1: nchw4c},
        "relax.nn.softmax", ("ABCD4b", "ABCD4b"),
    ),
    "a pool of three layouts": (
        unary("nn.max_pool2d", 2, 8, 6, 6, pool_size=(3, 3), strides=(2, 2)),
        {0: nchw4c, 1: lambda n, c, h, w: (w, c, n, h)},
        "relax.nn.max_pool2d", ("NCHW4c", "WCNH"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_layouts_are_recovered_and_right(case: str) -> None:
    op, maps, name, layouts = CASES[case]
    func = moved(op, maps)
    info = layout_normalised(func)
    assert isinstance(info, LayoutNormalised), info
    assert (info.logical.name, info.layouts) == (name, layouts)
    check(func, info, SIZES, op.positive)


def test_padding_is_left_out_and_assumed() -> None:
    op = unary("nn.softmax", 2, 6, 5, axis=1)
    func = moved(op, {0: lambda n, c, w: (n, c // 4, w, c % 4)}, pad=1.0)
    info = layout_normalised(func)
    assert isinstance(info, LayoutNormalised)
    first, last = info.buffers
    assert first is not None and first.padded and last is not None and not last.padded
    assert first.shape == (2, 6, 5)
    assert "only the first 6 are read" in info.certificate.assumptions[-1]
    check(func, info, SIZES, op.positive)


@pytest.mark.parametrize(
    ("op", "axis"),
    [
        (unary("sum", 2, 3, 4, 5, axis=[1]), [3]),
        (unary("sum", 2, 3, 4, 5, axis=[1, 3]), [2, 3]),
        (unary("mean", "n", 3, 4, 5, axis=[2]), [1]),
        (unary("max", 2, 3, 4, 5, axis=[0], keepdims=True), [0]),
    ],
)
def test_axes_follow_the_input(op: Operator, axis: list[int]) -> None:
    found = layout_normalised(moved(op, {0: lambda n, c, h, w: (n, h, w, c)}))
    assert isinstance(found, LayoutNormalised)
    assert found.logical.attrs["axis"] == tuple(axis)


def test_the_check_finds_wrong_answers() -> None:
    op = conv(2, padding=(1, 1))
    func = moved(op, {0: nchw4c})
    info = layout_normalised(func)
    assert isinstance(info, LayoutNormalised)
    check(func, info, SIZES, ())
    x, w, out = info.buffers
    attrs = {**info.logical.attrs, "dilation": (1, 2), "padding": (1, 2, 1, 2)}
    turned = tvm.tirx.IndexMap.from_func(lambda n, c, h, w: (n, c % 2, h, w, c // 2))
    assert x is not None
    for buffers_, changed in (
        ((replace(x, index_map=turned), w, out), info.logical.attrs),
        ((x, w, out), attrs),
    ):
        with pytest.raises(Wrong):
            other = replace(info.logical, attrs=changed)
            check(func, replace(info, logical=other, buffers=buffers_), SIZES, ())


def test_a_scalar_parameter_is_not_a_digit_of_a_coordinate() -> None:
    """It stands for a coordinate, but has no extent."""
    func = tvm.script.from_source("""# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(p0: T.handle, p1: T.handle, q: T.int64):
    n = T.int64()
    m = T.int64()
    x = T.match_buffer(p0, (n, m), "float32")
    o = T.match_buffer(p1, (m,), "float32")
    for i in T.grid(m):
        o[i] = x[q, i] + x[0, i]
""")
    for question in (op_info, op_infos, layout_normalised):
        found = question(func)
        assert isinstance(found, Refusal) and "fault" not in found.reason
