"""Products of one value with constant weights become one product; results stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import tirx as T

from opinfo.analysis.composites import transposed_matmul
from opinfo.transform import FuseQKV

from ...common.run import run
from ..prepare.lowered_graphs import Build, module, names, weight

OP = relax.op
N = tirx.Var("n", "int64")
NT = "relax.nn.transposed_matmul"


def agree(before: Any, after: Any, *shapes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    for a, b in zip(run(before, values), run(after, values), strict=True):
        np.testing.assert_array_equal(a, b)


def _plain(e: Any, x: Any) -> list[Any]:
    return [e(OP.matmul(x, weight(8, n, seed=n))) for n in (8, 4, 4)]


def _stored(e: Any, x: Any) -> list[Any]:
    return [e(transposed_matmul(x, weight(n, 8, seed=n))) for n in (8, 4, 4)]


def _with_biases(e: Any, x: Any) -> list[Any]:
    return [e(OP.add(y, weight(int(y.ty.shape[-1]), seed=7))) for y in _plain(e, x)]


@pytest.mark.part
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (_plain, ["relax.matmul", "relax.split"]),
        (_stored, [NT, "relax.split"]),
        (_with_biases, ["relax.matmul", "relax.split", *["relax.add"] * 3]),
    ],
)
@pytest.mark.parametrize("shape", [(5, 8), (2, N, 8)])
@pytest.mark.parametrize("lowered", [True, False])
def test_products_of_one_value_are_one(
    build: Build, expected: list[str], shape: tuple[Any, ...], lowered: bool
) -> None:
    before = module(build, shape, lowered=lowered)
    after = FuseQKV()(before)
    relax.analysis.well_formed(after)
    assert names(after) == [n.removeprefix("relax.") for n in expected]
    agree(before, after, tuple(3 if e is N else e for e in shape))


def test_the_weights_are_one_constant() -> None:
    def one(e: Any, x: Any) -> list[Any]:
        parts = [weight(8, n, seed=n).value.numpy() for n in (8, 4, 4)]
        split = e(OP.split(e(OP.matmul(x, relax.const(np.concatenate(parts, 1)))), [8, 12], -1))
        return [e(relax.TupleGetItem(split, k)) for k in range(3)]

    after = FuseQKV()(module(_plain, (5, 8), lowered=False))
    tvm.ir.assert_structural_equal(after, module(one, (5, 8), lowered=False))


def _two_values(e: Any, x: Any, y: Any) -> list[Any]:
    return [e(OP.matmul(x, weight(8, 4))), e(OP.matmul(y, weight(8, 4)))]


def _parameters(e: Any, x: Any, w: Any) -> list[Any]:
    return [e(OP.matmul(x, w)), e(OP.matmul(x, e(OP.exp(w))))]


def _one(e: Any, x: Any, y: Any) -> list[Any]:
    return [e(OP.matmul(x, weight(8, 4))), e(OP.exp(y))]


def _two_kinds(e: Any, x: Any, y: Any) -> list[Any]:
    return [e(OP.matmul(x, weight(8, 4))), e(transposed_matmul(x, weight(4, 8)))]


def _left(e: Any, x: Any, y: Any) -> list[Any]:
    return [e(OP.matmul(weight(4, 5), x)), e(OP.matmul(weight(6, 5), x))]


@pytest.mark.parametrize("build", [_two_values, _parameters, _one, _two_kinds, _left])
@pytest.mark.parametrize("lowered", [True, False])
def test_other_products_stay(build: Build, lowered: bool) -> None:
    mod = module(build, (5, 8), (8, 8), lowered=lowered)
    tvm.ir.assert_structural_equal(FuseQKV()(mod), mod)


@I.ir_module(s_tir=True)
class Scaled:
    @T.prim_func(private=True, s_tir=True)
    def product(
        x: T.Buffer((T.int64(2), T.int64(8)), "float32"),
        w: T.Buffer((T.int64(8), T.int64(4)), "float32"),
        y: T.Buffer((T.int64(2), T.int64(4)), "float32"),
    ) -> None:
        for i, j, k in T.grid(T.int64(2), T.int64(4), T.int64(8)):
            with T.sblock("b"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + (x[vi, vk] * T.float32(2)) * (w[vk, vj] * T.float32(0.5))


def test_a_product_in_real_arithmetic_only_stays() -> None:
    """It overflows where the product of the operators does not."""
    builder, x = relax.BlockBuilder(Scaled), relax.Var("x", relax.TensorType((2, 8), "float32"))
    callee, result = builder.get().get_global_var("product"), relax.TensorType((2, 4), "float32")
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = [builder.emit(relax.call_tir(callee, (x, weight(8, 4, seed=k)), result))
                     for k in range(2)]  # fmt: skip
            out = builder.emit_output(relax.Tuple(parts))
        builder.emit_func_output(out)
    before = builder.get()
    assert FuseQKV()(before).same_as(before)


def test_only_modules_are_accepted() -> None:
    from opinfo.byoc.fusion.fuse_qkv import fuse_qkv

    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got int"):
        fuse_qkv(3)
