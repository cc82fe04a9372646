"""Extents that are sums, such as ``past + 1``: each is a size of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.lift import lift
from opinfo.testing.strip import strip

from ....common.prim_funcs import prim_func

Extent = Callable[[Any], Any]


def lowered(op: Callable[..., Any], *shapes: tuple[int | Extent, ...]) -> Any:
    """The PrimFunc of an operator on tensors with extents over a size ``past``."""
    past = tirx.Var("past", "int64")
    params = [
        relax.Var(
            f"x{k}", relax.TensorType([e if isinstance(e, int) else e(past) for e in s], "float32")
        )
        for k, s in enumerate(shapes)
    ]
    return prim_func(op, [*params, relax.Var("sizes", relax.ShapeType([past]))])


def grown(past: Any) -> Any:
    return past + 1


@pytest.mark.parametrize(
    ("op", "shapes", "name"),
    [
        (lambda x: relax.op.nn.softmax(x, -1), ((2, grown),), "relax.nn.softmax"),
        (lambda x: relax.op.sum(x, [1]), ((2, grown),), "relax.sum"),
        (lambda x: relax.op.max(x, [0]), ((grown, 3),), "relax.max"),
        (lambda x: relax.op.argmax(x, 1), ((2, grown),), "relax.argmax"),
        (relax.op.matmul, ((4, 1, grown), (4, grown, 8)), "relax.matmul"),
        (lambda x: relax.op.sum(x, [1]), ((2, lambda past: past - 3),), "relax.sum"),
        (lambda x: relax.op.sum(x, [1]), ((2, lambda past: 8 - past),), "relax.sum"),
    ],
)
def test_a_reduction_over_a_sum_is_recovered(op: Any, shapes: Any, name: str) -> None:
    info = op_info(strip(lowered(op, *shapes)))
    assert isinstance(info, OpInfo) and info.name == name


def test_attention_over_a_grown_cache_is_recovered_operator_by_operator() -> None:
    """Lower ``softmax(q @ k) @ v`` over a cache of ``past + 1`` entries."""
    past = tirx.Var("past", "int64")
    shapes = ((4, 1, 8), (4, 8, past + 1), (4, past + 1, 8))
    q, k, v = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in zip("qkv", shapes, strict=True)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [q, k, v, relax.Var("sizes", relax.ShapeType([past]))]):
        with builder.dataflow():
            weights = builder.emit(relax.op.nn.softmax(relax.op.matmul(q, k), -1))
            out = builder.emit_output(relax.op.matmul(weights, v))
        builder.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(builder.get())
    infos = [op_info(strip(f)) for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    names = sorted(i.name if isinstance(i, OpInfo) else i.reason for i in infos)
    assert names == ["relax.matmul", "relax.matmul", "relax.nn.softmax"]


def test_an_attribute_is_over_the_functions_own_sizes() -> None:
    func = lowered(
        lambda x: relax.op.broadcast_to(x, relax.ShapeExpr([4, x.ty.shape[1]])), (1, grown)
    )
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.broadcast_to"
    (source, *_) = (p for p in func.params if hasattr(p.ty, "shape"))
    _, extent = info.attrs["shape"]
    assert tvm.sym.Analyzer().can_prove_equal(extent, source.ty.shape[1])


def test_two_sums_over_one_variable_keep_their_relation() -> None:
    func = lowered(lambda x: relax.op.nn.pad(x, [0, 0, 2, 1]), (3, grown))
    info = op_info(strip(func))
    assert isinstance(info, OpInfo) and list(info.attrs["pad_width"]) == [0, 0, 2, 1]


@pytest.mark.parametrize("extent", [lambda past: past // 2, lambda past: past * 2 + 1])
def test_an_extent_that_determines_no_variable_may_be_empty(extent: Extent) -> None:
    info = op_info(strip(lowered(lambda x: relax.op.sum(x, [1]), (2, extent))))
    assert isinstance(info, Refusal) and "some element is not written" in info.reason


PARTIAL = """
@T.prim_func(s_tir=True)
def main(past: T.int64, out: T.Buffer((past + T.int64(1),), "float32")):
    for i in range({0}):
        out[i] = T.float32(2)
"""


@pytest.mark.parametrize(
    ("count", "full"),
    [("past + T.int64(1)", True), ("past", False), ("past + T.int64(2)", False)],
)
def test_a_function_must_write_the_whole_sum(count: str, full: bool) -> None:
    info = op_info(tvm.script.from_source(PARTIAL.format(count)))
    assert isinstance(info, OpInfo) == full
    if isinstance(info, OpInfo):
        assert info.name == "relax.full"


def test_a_function_is_lifted_over_the_tensors_of_another() -> None:
    func = lowered(lambda x: relax.op.nn.softmax(x, -1), (2, grown))
    first = lift(func)
    again = lift(func, first.params)
    assert [d.body for d in again.outputs] == [d.body for d in first.outputs]
    assert again.params == first.params


GUARDED = """
@T.prim_func(s_tir=True)
def main(x_: T.handle, n: T.int64, m: T.int64, o_: T.handle):
    x = T.match_buffer(x_, ({0},), "float32")
    o = T.match_buffer(o_, ({0},), "float32")
    for i in range({0}):
        o[i] = T.if_then_else(n > T.int64(0), x[i], T.float32(0))
"""
FACTORS = "scalars that are factors of a dimension are at least 1"


@pytest.mark.parametrize(
    ("extent", "answered"),
    [
        ("T.int64(-2) * n", False),  # n is negative, and the result 0
        ("n * T.int64(-2)", False), ("n * m * T.int64(-1)", False), ("n + m", False),
        ("T.int64(2) * n", True), ("n * n", True), ("n * m", True), ("n * (m + T.int64(1))", True),
    ],
)  # fmt: skip
def test_a_factor_of_an_extent_is_negative_or_assumed_not_to_be(
    extent: str, answered: bool
) -> None:
    """A product of two negative scalars is a size, too."""
    info = op_info(tvm.script.from_source(GUARDED.format(extent)))
    assert isinstance(info, OpInfo) == answered
    if isinstance(info, OpInfo):
        assert FACTORS in info.certificate.assumptions


def test_a_size_on_its_own_is_not_a_factor() -> None:
    info = op_info(strip(lowered(lambda x: relax.op.exp(x), (2, lambda past: past))))
    assert isinstance(info, OpInfo) and FACTORS not in info.certificate.assumptions


INT32 = """
@T.prim_func(s_tir=True)
def main(x_: T.handle, n: T.int32, o_: T.handle):
    x = T.match_buffer(x_, (n + 1, 3), "float32")
    o = T.match_buffer(o_, (n + 1, 3), "float32")
    for i, j in T.grid(n + 1, 3):
        o[i, j] = T.exp(x[i, j])
"""


def test_a_sum_of_32_bits_is_a_size_too() -> None:
    """Relax only has sizes of 64 bits; TVM's error was the reason of a refusal."""
    info = op_info(tvm.script.from_source(INT32))
    assert isinstance(info, OpInfo) and info.name == "relax.exp"
