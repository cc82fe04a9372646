"""Dequantisations are fused into their only use by recognition; the results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import Chain, op_infos
from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.testing.strip import strip_module
from opinfo.testing.unoptimised import unoptimised
from opinfo.transform import FuseDequantize

from ...common.prim_funcs import LEGALIZE, fused, prim_funcs

OP = relax.op
Build = Callable[..., Any]


def _module(build: Build, axis: int, x: tuple[tuple[Any, ...], str], fuse: bool = False) -> Any:
    """A lowered module without names, with a weight of 64 x 32 or 32 x 64, names removed."""
    shapes = [(8, 32), (2, 32)] if axis == 0 else [(32, 8), (32, 2)]
    params = [
        relax.Var("w", relax.TensorType(shapes[0], "uint32")),
        relax.Var("s", relax.TensorType(shapes[1], "float32")),
        relax.Var("x", relax.TensorType(*x)),
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            weight = builder.emit(
                group_dequantize(*params[:2], bits=4, group_size=32, axis=axis, offset=7.0)
            )
            out = builder.emit_output(build(builder, weight, params[2]))
        builder.emit_func_output(out)
    return strip_module((fused if fuse else LEGALIZE)(builder.get()))


def _run(mod: Any, x: np.ndarray, axis: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (8, 32) if axis == 0 else (32, 8), "uint32")
    scale = rng.random((2, 32) if axis == 0 else (32, 2)).astype("float32")
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    out: np.ndarray = machine["main"](*map(tvm.runtime.tensor, (words, scale, x))).numpy()
    return out


def _product(b: Any, w: Any, x: Any) -> Any:
    return OP.matmul(x, w)


def _product_silu(b: Any, w: Any, x: Any) -> Any:
    return OP.nn.silu(b.emit(OP.matmul(x, w)))


def _transposed_product(b: Any, w: Any, x: Any) -> Any:
    return OP.matmul(x, b.emit(OP.permute_dims(w)))


def _rows(b: Any, w: Any, x: Any) -> Any:
    return OP.take(w, x, axis=0, mode="wrap")


def _transposed(b: Any, w: Any, x: Any) -> Any:
    return OP.permute_dims(w)


N = tirx.Var("n", "int64")
FLOATS, ROWS = (("f", 64), "float32"), (("i",), "int32")


@pytest.mark.part
@pytest.mark.parametrize(
    ("build", "axis", "kind", "steps"),
    [
        (_product, 0, "float32", ("relax.nn.group_dequantize", "relax.matmul")),
        (_transposed_product, 1, "float32", None),
        (_rows, 1, "int32", ("relax.nn.group_dequantize", "relax.take")),
        (_transposed, 1, "float32", None),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_the_only_use_is_fused(
    build: Build, axis: int, kind: str, steps: tuple[str, ...] | None, symbolic: bool
) -> None:
    size = N if symbolic else 5
    shape = (size,) if kind == "int32" else (size, 64)
    before = _module(build, axis, (shape, kind))
    after = FuseDequantize()(before)
    relax.analysis.well_formed(after)
    assert len(prim_funcs(before)) >= 2 and len(prim_funcs(after)) == 1
    chain = op_infos(prim_funcs(after)[0])
    assert isinstance(chain, Chain), chain
    assert steps is None or chain.names == steps
    rng = np.random.default_rng(1)
    x = (rng.integers(0, 32, 5) if kind == "int32" else rng.random((5, 64))).astype(kind)
    np.testing.assert_allclose(_run(after, x, axis), _run(before, x, axis), rtol=1e-6)


def test_only_the_rows_that_are_read_are_dequantized() -> None:
    after = FuseDequantize()(_module(_rows, 1, ((5,), "int32")))
    assert "alloc_buffer" not in str(prim_funcs(after)[0])


@pytest.mark.parametrize("fused", [False, True])
def test_elementwise_steps_stay_with_the_product(fused: bool) -> None:
    x = ((5, 64), "float32")
    before = _module(_product_silu, 0, x, fused)
    after = FuseDequantize()(before)
    assert (len(prim_funcs(before)), len(prim_funcs(after))) == ((2, 1) if fused else (3, 2))
    data = np.random.default_rng(1).random((5, 64), "float32")
    np.testing.assert_allclose(_run(after, data, 0), _run(before, data, 0), rtol=1e-5)


def _two_products(b: Any, w: Any, x: Any) -> Any:
    return OP.add(b.emit(OP.matmul(x, w)), b.emit(OP.matmul(b.emit(OP.exp(x)), w)))


def _product_and_result(b: Any, w: Any, x: Any) -> Any:
    return relax.Tuple([b.emit_output(w), b.emit_output(b.emit(OP.matmul(x, w)))])


def _sum(b: Any, w: Any, x: Any) -> Any:
    return OP.sum(w)


def _other_product(b: Any, w: Any, x: Any) -> Any:
    return OP.matmul(x, b.emit(OP.exp(w)))


@pytest.mark.parametrize("build", [_two_products, _product_and_result, _sum, _other_product])
def test_other_uses_are_not_fused(build: Build) -> None:
    mod = _module(build, 0, ((5, 64), "float32"))
    after = FuseDequantize()(mod)
    tvm.ir.assert_structural_equal(after, mod)


def test_other_dequantizations_are_not_fused() -> None:
    """A product with a weight that is only scaled."""
    mod = _module(_product, 0, ((5, 64), "float32"))
    for gvar, func in mod.functions_items():
        text = func.script() if isinstance(func, tirx.PrimFunc) else ""
        if "T.uint32(15)" in text:
            text = text.replace("T.uint32(15)", "T.uint32(7)")
            changed = tvm.script.from_source("# from tvm.script import tirx as T\n" + text)
            mod[gvar] = changed.with_attrs(func.attrs).without_attr("global_symbol")
    tvm.ir.assert_structural_equal(FuseDequantize()(mod), mod)


def test_only_modules_are_accepted() -> None:
    from opinfo.byoc.fusion.fuse_dequantize import fuse_dequantize

    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got int"):
        fuse_dequantize(3)
