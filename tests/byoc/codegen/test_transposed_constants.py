"""Constants of window kernels with the lanes' axis innermost: which are moved, the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.script import tirx as T

from opinfo.analysis.support.tvm_compat import GenericConst, array_of
from opinfo.byoc.backends.nvidia.passes.transposed_constants import with_constant_layouts

from ...common.run import run

SHAPE = (1, 5, 6, 16)


@T.prim_func(private=True, s_tir=True)
def by_channel(
    x: T.Buffer((1, 5, 6, 16)), k: T.Buffer((16, 3, 3, 1)), y: T.Buffer((1, 3, 4, 16))
) -> None:
    T.func_attr({"tirx.noalias": True})
    for h, w, c, r, s in T.grid(3, 4, 16, 3, 3):
        with T.sblock("conv"):
            vh, vw, vc, vr, vs = T.axis.remap("SSSRR", [h, w, c, r, s])
            with T.init():
                y[0, vh, vw, vc] = T.float32(0)
            y[0, vh, vw, vc] = y[0, vh, vw, vc] + x[0, vh + vr, vw + vs, vc] * k[vc, vr, vs, 0]


@T.prim_func(private=True, s_tir=True)
def innermost(
    x: T.Buffer((1, 5, 6, 16)), k: T.Buffer((1, 3, 3, 16)), y: T.Buffer((1, 3, 4, 16))
) -> None:
    T.func_attr({"tirx.noalias": True})
    for h, w, c, r, s in T.grid(3, 4, 16, 3, 3):
        with T.sblock("conv"):
            vh, vw, vc, vr, vs = T.axis.remap("SSSRR", [h, w, c, r, s])
            with T.init():
                y[0, vh, vw, vc] = T.float32(0)
            y[0, vh, vw, vc] = y[0, vh, vw, vc] + x[0, vh + vr, vw + vs, vc] * k[0, vr, vs, vc]


@T.prim_func(private=True, s_tir=True)
def no_windows(
    x: T.Buffer((1, 5, 6, 16)), k: T.Buffer((16, 3, 3, 1)), y: T.Buffer((1, 3, 4, 16))
) -> None:
    T.func_attr({"tirx.noalias": True})
    for h, w, c in T.grid(3, 4, 16):
        with T.sblock("product"):
            vh, vw, vc = T.axis.remap("SSS", [h, w, c])
            y[0, vh, vw, vc] = x[0, vh, vw, vc] * k[vc, vh % 3, vw % 3, 0]


def net(func: Any, given: bool = False) -> Any:
    """The PrimFunc on an image and on weights, which are constants if the caller gives none."""
    shape = tuple(int(e) for e in func.params[1].ty.shape)
    xs = [relax.Var("x", relax.TensorType(SHAPE, "float32")),
          relax.Var("k", relax.TensorType(shape, "float32"))]  # fmt: skip
    numbers = np.random.default_rng(0).standard_normal(shape).astype("float32")
    builder = relax.BlockBuilder()
    with builder.function("main", xs[: 1 + given]):
        with builder.dataflow():
            args = (xs[0], xs[1] if given else relax.const(numbers))
            called = [relax.call_tir(builder.add_func(func, "f"), args,
                                     relax.TensorType((1, 3, 4, 16), "float32"))
                      for _ in range(2)]  # fmt: skip
            out = builder.emit_output(relax.Tuple([builder.emit(c) for c in called]))
        builder.emit_func_output(out)
    return builder.get()


STAYS = {
    "innermost already": net(innermost),
    "weights of the caller": net(by_channel, given=True),
    "no windows": net(no_windows),
}


def constants(mod: Any) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []

    def note(expr: Any) -> None:
        if isinstance(expr, GenericConst):
            found.append(tuple(array_of(expr).numpy().shape))

    relax.analysis.post_order_visit(mod["main"].body, note)
    return found


def test_weights_by_channel_are_moved() -> None:
    before = net(by_channel)
    after = with_constant_layouts(before)
    assert constants(before) == [(16, 3, 3, 1)] * 2
    assert constants(after) == [(3, 3, 1, 16)] * 2
    assert sum(isinstance(f, tirx.PrimFunc) for f in after.functions.values()) == 1
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    np.testing.assert_array_equal(run(after, [x])[0], run(before, [x])[0])


@pytest.mark.parametrize("name", STAYS)
def test_other_constants_keep_their_layouts(name: str) -> None:
    assert with_constant_layouts(STAYS[name]).same_as(STAYS[name])
