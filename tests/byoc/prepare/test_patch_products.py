"""Patches of images as products: which convolutions, what comes along, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.prepare.gpu.patch_products import patch_products

from ...common.run import run

nn, op = relax.op.nn, relax.op
IMAGE = (2, 3, 8, 12)


def net(build: Callable[..., Any], shape: tuple[int, ...] = IMAGE, dtype: str = "float16") -> Any:
    rng = np.random.default_rng(0)

    def const(*shape: int, dtype: str = dtype) -> Any:
        return relax.const(rng.standard_normal(shape).astype(dtype), dtype)

    x = relax.Var("x", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, const, x))
        builder.emit_func_output(out)
    return builder.get()


def conv(e: Any, c: Any, x: Any, strides: int = 4, window: int = 4, **attrs: Any) -> Any:
    inputs = int(x.ty.shape[1]) // attrs.get("groups", 1)
    return e(nn.conv2d(x, c(6, inputs, window, window), strides=strides,
                       **attrs))  # fmt: skip


def embedded(e: Any, c: Any, x: Any) -> Any:
    """As a ViT: a bias in float32, a cast, and tokens last."""
    y = e(op.add(conv(e, c, x, out_dtype="float32"), c(1, 6, 1, 1, dtype="float32")))
    y = e(op.reshape(e(op.astype(y, "float16")), (2, 6, 6)))
    return e(op.permute_dims(y, [0, 2, 1]))


def last(e: Any, c: Any, x: Any) -> Any:
    """As Swin: channels last after it."""
    return e(op.permute_dims(e(op.add(conv(e, c, x), c(1, 6, 1, 1))), [0, 2, 3, 1]))


PRODUCTS: dict[str, tuple[Any, list[str]]] = {
    "alone": (net(conv), ["reshape", "permute_dims", "reshape", "matmul", "reshape",
                          "permute_dims"]),
    "a bias and a cast": (net(embedded), ["reshape", "permute_dims", "reshape", "matmul", "add",
                                          "astype", "reshape", "permute_dims", "reshape",
                                          "permute_dims"]),
    "channels last after it": (net(last), ["reshape", "permute_dims", "reshape", "matmul", "add",
                                           "reshape"]),
}  # fmt: skip
STAYS = {
    "overlapping": net(lambda e, c, x: conv(e, c, x, strides=2)),
    "padded": net(lambda e, c, x: conv(e, c, x, padding=2)),
    "dilated": net(lambda e, c, x: conv(e, c, x, window=2, strides=2, dilation=2)),
    "grouped": net(lambda e, c, x: conv(e, c, x, groups=3)),
    "a rest": net(conv, (2, 3, 9, 12)),
    "many channels": net(conv, (2, 8, 8, 12)),
    "one pixel": net(lambda e, c, x: conv(e, c, x, window=1, strides=1)),
    "float32": net(conv, dtype="float32"),
    "another permutation": net(lambda e, c, x: e(op.permute_dims(x, [0, 2, 3, 1]))),
}


def names(mod: Any) -> list[str]:
    """The operators, in order."""
    (block,) = relax.transform.CanonicalizeBindings()(mod)["main"].body.blocks
    return [b.value.op.name for b in block.bindings]


@pytest.mark.parametrize("name", PRODUCTS)
def test_patches_are_multiplied(name: str) -> None:
    before, ops = PRODUCTS[name]
    after = patch_products(before)
    assert names(after) == [f"relax.{o}" for o in ops]
    x = np.random.default_rng(1).standard_normal(IMAGE).astype("float16")
    got, want = (run(m, [x])[0].astype("float32") for m in (after, before))
    np.testing.assert_allclose(got, want, 1e-2, 2e-2)


@pytest.mark.parametrize("name", STAYS)
def test_other_convolutions_are_not_products(name: str) -> None:
    tvm.ir.assert_structural_equal(patch_products(STAYS[name]), STAYS[name])


def test_a_bias_along_another_axis_stays_after_the_result() -> None:
    mod = patch_products(net(lambda e, c, x: e(op.add(conv(e, c, x), c(1, 1, 1, 3)))))
    assert names(mod)[-2:] == ["relax.permute_dims", "relax.add"]


def test_patches_of_images_whose_sizes_are_symbolic_are_multiplied() -> None:
    n, h, w = (tvm.tirx.Var(name, "int64") for name in "nhw")
    sizes = relax.Var("sizes", relax.ShapeType([n, h, w]))
    rng = np.random.default_rng(0)
    weights = relax.const(rng.standard_normal((6, 3, 4, 4)).astype("float16"))

    def module(shape: tuple[Any, ...]) -> Any:
        x = relax.Var("x", relax.TensorType(shape, "float16"))
        builder = relax.BlockBuilder()
        with builder.function("main", [x, sizes]):
            with builder.dataflow():
                conv = builder.emit(nn.conv2d(x, weights, strides=4))
                out = builder.emit_output(builder.emit(op.permute_dims(conv, [0, 2, 3, 1])))
            builder.emit_func_output(out)
        return builder.get()

    before = module((n, 3, 4 * h, 4 * w))
    after = patch_products(before)
    assert "relax.matmul" in names(after)
    for shape in ((2, 2, 3), (1, 3, 1)):
        x = rng.standard_normal((shape[0], 3, 4 * shape[1], 4 * shape[2])).astype("float16")
        given = [x, tvm.runtime.ShapeTuple(shape)]
        got, want = (run(m, given)[0].astype("float32") for m in (after, before))
        np.testing.assert_allclose(got, want, 1e-2, 2e-2)
    rest = module((n, 3, 4 * h + 1, 4 * w))
    tvm.ir.assert_structural_equal(patch_products(rest), rest)
