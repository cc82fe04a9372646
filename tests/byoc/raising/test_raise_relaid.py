"""A PrimFunc whose buffers were permuted is raised as the plain op that has those layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.byoc.prepare.raising.raise_ops import raise_ops

from ...common.prim_funcs import lowered
from ...common.run import run
from ...relaid.transforms import buffer, buffers

OPS = relax.op
Shape = tuple[int, ...]


def moved(build: Callable[..., Any], shapes: tuple[Shape, ...], orders: dict[int, Shape]) -> Any:
    """A module that calls the op's PrimFunc, the parameters' dimensions in other orders."""
    func = lowered(build, *shapes)
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": copied(func)}))
    params = sch.mod["main"].params
    at = [(block, place, buffer(sch, block, place)) for _, block, place in buffers(sch)]
    for block, place, source in at:
        order = next((orders.get(k) for k, p in enumerate(params) if p.same_as(source)), None)
        if order is not None:
            axes = [tirx.Var(f"i{d}", "int64") for d in range(len(order))]
            sch.transform_layout(block, place, tirx.IndexMap(axes, [axes[d] for d in order], None))
    return calling(sch.mod["main"], len(shapes))


def calling(func: Any, inputs: int) -> Any:
    """A module whose main function is one call of a PrimFunc."""
    types = [
        relax.TensorType([int(e) for e in p.ty.shape], str(p.ty.dtype))
        for p in func.params
        if is_buffer_var(p)
    ]
    args = [relax.Var(f"a{k}", ty) for k, ty in enumerate(types[:inputs])]
    builder = relax.BlockBuilder()
    with builder.function("main", args):
        gvar = builder.add_func(func.without_attr("global_symbol"), "f")
        out = types[inputs] if len(types) == inputs + 1 else types[inputs:]
        builder.emit_func_output(builder.emit(relax.call_tir(gvar, args, out_ty=out)))
    return builder.get()


NHWC, OHWI, HWIO = (0, 2, 3, 1), (0, 2, 3, 1), (2, 3, 1, 0)
X = (2, 4, 9, 8)
CASES: dict[str, tuple[Any, tuple[Shape, ...], dict[int, Shape], str, dict[str, Any]]] = {
    "conv2d OHWI": (
        lambda x, w: OPS.nn.conv2d(x, w, strides=(2, 1), padding=(1, 1)),
        (X, (6, 4, 3, 3)),
        {0: NHWC, 1: OHWI, 2: NHWC},
        "relax.nn.conv2d",
        {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"},
    ),
    "conv2d HWIO": (
        lambda x, w: OPS.nn.conv2d(x, w, dilation=(1, 2)),
        (X, (6, 4, 3, 3)),
        {0: NHWC, 1: HWIO, 2: NHWC},
        "relax.nn.conv2d",
        {"data_layout": "NHWC", "kernel_layout": "HWIO", "dilation": (1, 2)},
    ),
    "max_pool2d": (
        lambda x: OPS.nn.max_pool2d(x, (2, 2), strides=(2, 2), padding=(1, 1)),
        (X,),
        {0: NHWC, 1: NHWC},
        "relax.nn.max_pool2d",
        {"layout": "NHWC"},
    ),
    "resize2d": (
        lambda x: OPS.image.resize2d(x, (6, 16), layout="NCHW", method="linear"),
        (X,),
        {0: NHWC, 1: NHWC},
        "relax.image.resize2d",
        {"layout": "NHWC"},
    ),
    "softmax": (
        lambda x: OPS.nn.softmax(x, axis=1), (X,), {0: NHWC, 1: NHWC}, "relax.nn.softmax",
        {"axis": 3},
    ),
    "sum": (
        lambda x: OPS.sum(x, axis=[1], keepdims=True), (X,), {0: NHWC, 1: NHWC}, "relax.sum",
        {"axis": [3]},
    ),
    "concat": (
        lambda x, y: OPS.concat([x, y], axis=1), (X, X), {0: NHWC, 1: NHWC, 2: NHWC},
        "relax.concat", {"axis": 3},
    ),
    "split": (
        lambda x: OPS.split(x, 2, axis=1), (X,), {0: NHWC, 1: NHWC, 2: NHWC}, "relax.split",
        {"axis": 3},
    ),
    "strided_slice": (
        lambda x: OPS.strided_slice(x, [1, 2], [1, 0], [3, 9], [1, 2]), (X,), {0: NHWC, 1: NHWC},
        "relax.strided_slice", {"axes": [1, 3], "begin": [0, 1], "strides": [2, 1]},
    ),
    "pad": (
        lambda x: OPS.nn.pad(x, [0, 0, 1, 2, 0, 0, 3, 0]), (X,), {0: NHWC, 1: NHWC},
        "relax.nn.pad", {"pad_width": [0, 0, 0, 0, 3, 0, 1, 2]},
    ),
    "batch_norm": (
        lambda *a: OPS.nn.batch_norm(*a, axis=1, training=False),
        (X, (4,), (4,), (4,), (4,)),
        {0: NHWC, 5: NHWC},
        "relax.nn.batch_norm",
        {"axis": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_permuted_op_is_raised_in_its_layout(case: str) -> None:
    build, shapes, orders, op, attrs = CASES[case]
    mod = moved(build, shapes, orders)
    found = raise_ops(mod)
    assert [s.op for s in found.raised] == [op], found.kept
    call = next(
        b.value for b in found.module["main"].body.blocks[0].bindings
        if str(getattr(getattr(b.value, "op", None), "name", "")) == op
    )  # fmt: skip
    for name, value in attrs.items():
        assert _plain(getattr(call.attrs, name, None), call, name) == _plain(value, call, name)
    rng = np.random.default_rng(0)
    values = [
        rng.uniform(0.5, 1.5, [int(e) for e in p.ty.shape.values]).astype("float32")
        for p in mod["main"].params
    ]
    for a, b in zip(run(mod, values), run(found.module, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def _plain(value: Any, call: Any, name: str) -> Any:
    """An attribute as a list or a plain value; what is an operand is looked up in the call."""
    if value is None:
        place = {"axes": 1, "begin": 2, "end": 3, "strides": 4}[name]
        value = call.args[place]
        value = getattr(value, "values", getattr(value, "fields", value))
    if isinstance(value, str):
        return value
    try:
        return [int(getattr(v, "value", v)) for v in value]
    except TypeError:
        return int(value)


def test_a_packed_op_stays_and_its_layouts_are_named() -> None:
    def packed(sch: Any) -> None:
        block = sch.get_sblock("compute")
        sch.transform_layout(
            block, ("read", 0), lambda n, c, h, w: (n, c // 2, h, w, c % 2), pad_value=None
        )

    func = lowered(OPS.exp, X)
    sch = tvm.s_tir.Schedule(tvm.IRModule({"main": copied(func)}))
    packed(sch)
    (kept,) = raise_ops(calling(sch.mod["main"], 1)).kept
    assert "ABCD2b, ABCD" in kept.reason
