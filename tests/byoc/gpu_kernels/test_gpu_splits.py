"""Reductions that blocks of threads share: what the kernels compute together, and which are split.

The constants of `split_plan` are those of a device so small that small tensors are split.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx

from opinfo.analysis import Refusal
from opinfo.analysis.lifting.tir.node import NodeDict
from opinfo.byoc.backends.nvidia.passes.split_reductions import split_reductions
from opinfo.byoc.backends.nvidia.splits import split_plan
from opinfo.byoc.backends.nvidia.splits.split_kernels import PartKernel, split_kernels
from opinfo.byoc.backends.nvidia.splits.split_plan import nearest

from ...common.interpret import interpret
from ...common.machine import execute
from .gpu_cases import (
    Build,
    group_norm,
    kernel_of,
    net,
    nn,
    op,
    operands,
    prim_func,
    written_params,
)

SMALL = {"BLOCK": 10.0, "COLUMNS": 10.0, "LAUNCH": 0.0, "BLOCKS": 16, "LEAST": 256, "SIDE": 64}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(split_plan, name, value)


def split(build: Build, *shapes: tuple[Any, ...]) -> tuple[Any, tuple[PartKernel, ...]]:
    func = prim_func(build, *shapes)
    parts = split_kernels(func)
    assert isinstance(parts, tuple), parts
    return func, parts


def computed(func: Any, parts: tuple[PartKernel, ...], values: list[Any]) -> list[Any]:
    """The results of a PrimFunc by the kernels of its parts."""
    known, written = NodeDict[Any](), written_params(func)
    inputs = [p for p in func.params if p not in written]
    for param, value in zip(inputs, values, strict=True):
        known[param] = value
    for part in parts:
        results = execute(kernel_of(part.func), [known[b] for b in part.reads])
        for buffer, result in zip(part.writes, results, strict=True):
            known[buffer] = result
    return [known[p] for p in func.params if p in written]


#: Name: how many kernels, the shape of the parts of the first reduction, the graph, and its shapes.
CASES: dict[str, tuple[int, tuple[int, ...], Build, tuple[tuple[Any, ...], ...]]] = {
    "sum of all": (2, (16,), lambda e, x: e(op.sum(x)), ((64, 40),)),
    "maximum of all": (2, (16,), lambda e, x: e(op.max(x)), ((64, 40),)),
    "product of columns": (2, (16, 16), lambda e, x: e(op.prod(x, [0])), ((64, 16, "float32"),)),
    "mean, then rounded": (2, (8,), lambda e, x: e(op.mean(x)), ((8, 6, 40),)),
    "variance": (2, (16, 1, 1), lambda e, x: e(op.variance(x)), ((64, 40, "float32"),)),
    "variance of halves": (4, (16, 1, 1), lambda e, x: e(op.variance(x)), ((64, 40),)),
    "variance, parts that do not divide": (4, (15, 1), lambda e, x: e(op.variance(x)),
                                           ((1009, "float32"),)),
    "variance of columns": (2, (16, 16, 1), lambda e, x: e(op.variance(x, [0])),
                            ((64, 16, "float32"),)),
    "variance of pixels": (2, (2, 4, 2, 16, 1, 1), lambda e, x: e(op.variance(x, [1, 2])),
                           ((2, 4, 8, 16, "float32"),)),
    "parts that do not divide": (2, (7,), lambda e, x: e(op.sum(x)), ((1009,),)),
    "group norm, channels last": (3, (2, 8, 2, 2, 10), group_norm, ((2, 8, 8, 20), (20,), (20,))),
    "layer norm of images": (3, (2, 4), lambda e, x, w, b: e(nn.layer_norm(
        x, w, b, axes=[1, 2, 3], epsilon=1e-5)),
        ((2, 8, 4, 16), (8, 4, 16), (8, 4, 16))),
    "place of the maximum": (2, (16,), lambda e, x: e(op.argmax(x)), ((64, 40),)),
    "softmax of a long row": (5, (16, 1), lambda e, x: e(nn.softmax(x)), ((1, 2560),)),
    "mean of a batch": (2, (4, 4), lambda e, x: e(op.mean(x, [0, 2, 3])), ((8, 4, 8, 16),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("small")
def test_parts_compute_what_the_prim_func_does(name: str) -> None:
    count, shape, build, shapes = CASES[name]
    func, parts = split(build, *shapes)
    before = func.script()
    assert len(parts) == count
    assert tuple(int(e) for e in parts[0].writes[0].ty.shape) == shape
    values = operands(func)
    for got, want in zip(computed(func, parts, values), interpret(func, values), strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-9)
    assert func.script() == before


@pytest.mark.usefixtures("small")
def test_sums_of_halves_are_rounded_once() -> None:
    _, (first, second) = split(lambda e, x: e(op.sum(x)), (64, 40))
    assert [str(b.ty.dtype) for b in first.writes] == ["float32"]
    assert [str(b.ty.dtype) for b in second.writes] == ["float16"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["group norm, channels last", "layer norm of images"])
def test_what_rows_have_in_common_is_computed_once(name: str) -> None:
    """The last kernel, over all elements, does not divide."""
    _, _, build, shapes = CASES[name]
    _, parts = split(build, *shapes)
    slow = [[word for word in (" / ", "rsqrt") if word in part.func.script()] for part in parts]
    assert slow[-1] == [] and "rsqrt" in slow[-2]


@pytest.mark.usefixtures("small")
def test_the_first_of_equal_maxima_is_chosen() -> None:
    func, parts = split(lambda e, x: e(op.argmax(x)), (64, 40))
    values = [np.zeros((64, 40))]
    values[0][[3, 50], [7, 2]] = 1
    assert int(computed(func, parts, values)[0]) == 3 * 40 + 7


@pytest.mark.usefixtures("small")
def test_places_that_a_tensor_has_may_need_64_bits() -> None:
    """Reductions of a caller's own: only places that are computed from axes are known to fit."""
    ids, x = te.placeholder((4, 256), "int64"), te.placeholder((4, 256), "float32")
    k = te.reduce_axis((0, 256))

    def later(a: Any, b: Any) -> tuple[Any, Any]:
        wins = tirx.GT(a[1], b[1])
        first = tirx.Or(wins, tirx.And(tirx.EQ(a[1], b[1]), tirx.LT(a[0], b[0])))
        return tirx.Select(first, a[0], b[0]), tirx.Select(wins, a[1], b[1])

    largest = te.comm_reducer(
        later, lambda i, v: (tirx.const(-1, i), tvm.te.min_value(v)), name="largest"
    )
    outs = te.compute((4,), lambda i: largest((ids[i, k], x[i, k]), axis=k), name="out")
    func = te.create_prim_func([ids, x, *outs]).with_attr("tirx.noalias", True)
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 9, (4, 256)) + (1 << 40), rng.standard_normal((4, 256))]
    parts = split_kernels(func)
    assert isinstance(parts, tuple)
    (got, _), (want, _) = computed(func, parts, values), interpret(func, values)
    np.testing.assert_array_equal(got, want)


REFUSED: dict[str, tuple[str, Build, tuple[tuple[Any, ...], ...]]] = {
    "no reduction": ("one block of threads does", lambda e, x: e(nn.relu(x)), ((64, 40),)),
    "a product": ("a product of matrices", lambda e, x, y: e(op.matmul(x, y)),
                  ((4, 2560), (2560, 4))),
    "windows": ("windows of a reduction overlap", lambda e, x: e(nn.max_pool2d(
        x, (3, 3), (2, 2), layout="NHWC")), ((1, 65, 65, 16),)),
    "symbolic": ("symbolic shape", lambda e, x: e(op.sum(x, [1])),
                 ((tvm.tirx.Var("n", "int64"), 2560),)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("small")
def test_refusals_say_why(name: str) -> None:
    reason, build, shapes = REFUSED[name]
    answer = split_kernels(prim_func(build, *shapes))
    assert isinstance(answer, Refusal) and reason in answer.reason


def test_reductions_that_fill_a_device_are_not_split() -> None:
    assert isinstance(
        split_kernels(prim_func(lambda e, x: e(op.sum(x, [1])), (8192, 2048))), Refusal
    )
    assert isinstance(split_kernels(prim_func(lambda e, x: e(op.sum(x)), (64, 40))), Refusal)
    _, parts = split(lambda e, x: e(op.max(x)), (8192, 2048))
    assert [int(e) for e in parts[0].writes[0].ty.shape] == [512]


def test_sums_are_split_for_the_sake_of_what_follows() -> None:
    """Blocks for 32 sums nearly fill a device; a norm by them reads and writes all of it again."""
    shape = (32, 64, 56, 56)
    sums = prim_func(lambda e, x: e(op.sum(x, [1, 2, 3])), shape)
    assert isinstance(split_kernels(sums), Refusal)
    _, parts = split(lambda e, x, w, b: e(nn.layer_norm(
        x, w, b, axes=[1, 2, 3], epsilon=1e-5)), shape, shape[1:], shape[1:])  # fmt: skip
    assert len(parts) == 3


def response_norm(e: Any, x: Any, of_image: Any) -> Any:
    """What a channel has of an image, relative to the mean of all channels, scales the image."""
    return e(op.multiply(x, e(op.divide(of_image, e(op.mean(of_image, [3], keepdims=True))))))


@pytest.mark.parametrize("images", [1, 32])
def test_a_total_for_much_more_than_its_terms_is_a_kernel_of_its_own(images: int) -> None:
    """One kernel has a block for each image, and TVM's rule for uneven rows is slow."""
    shapes = ((images, 56, 56, 384), (images, 1, 1, 384))
    _, (total, scaled) = split(response_norm, *shapes)
    assert [tuple(map(int, b.ty.shape)) for b in total.writes] == [(images, 1, 1, 1)]
    assert [tuple(map(int, b.ty.shape)) for b in scaled.writes] == [shapes[0]]


def test_a_kernel_of_its_own_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_plan, "UNEVEN", 1.0)
    func, parts = split(response_norm, (2, 6, 6, 40), (2, 1, 1, 40))
    assert len(parts) == 2
    values = [np.asarray(v, "float64") for v in operands(func)]
    got, want = computed(func, parts, values), interpret(func, values)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)


def test_parts_are_divisors_where_there_are_some() -> None:
    assert [nearest(8192, 528), nearest(90, 16), nearest(97, 16), nearest(7, 1)] == [512, 15, 16, 1]


@pytest.mark.usefixtures("small")
def test_parts_are_tensors_of_the_program() -> None:
    mod = net(lambda e, x: e(nn.relu(e(op.sum(x)))), (64, 40))
    lowered = relax.transform.LegalizeOps()(mod)
    noalias = lowered.clone()
    for gvar, func in lowered.functions_items():
        if isinstance(func, tvm.tirx.PrimFunc):
            noalias.update_func(gvar, func.with_attr("tirx.noalias", True))
    out = split_reductions(noalias)
    calls = [b.value for b in out["main"].body.blocks[0].bindings
             if getattr(getattr(b.value, "op", None), "name", "") == "relax.call_tir"]  # fmt: skip
    assert [c.args[0].name_hint for c in calls] == ["sum_0", "sum_1", "relu"]
    relax.analysis.well_formed(out)
    assert split_reductions(out).functions.keys() == out.functions.keys()
