"""Products of one value with constant weights become one product; results stay equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import Chain, op_infos
from opinfo.analysis.composites import transposed_matmul
from opinfo.testing.strip import strip_module
from opinfo.transform import FuseQKV

from ..run import run

OP = relax.op
N = tirx.Var("n", "int64")
NT = "relax.nn.transposed_matmul"
Build = Callable[..., Any]


def weight(*shape: int, seed: int = 0) -> Any:
    return relax.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def module(build: Build, *shapes: tuple[Any, ...], lowered: bool = True) -> Any:
    params = [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            results = [builder.emit_output(r) for r in build(builder.emit, *params)]
        builder.emit_func_output(relax.Tuple(results))
    return strip_module(relax.transform.LegalizeOps()(builder.get())) if lowered else builder.get()


def names(mod: Any) -> list[str]:
    """The operators of the calls of PrimFuncs, in order."""
    out: list[str] = []

    def one(expr: Any) -> None:
        if str(getattr(getattr(expr, "op", None), "name", "")) == "relax.call_tir":
            chain = op_infos(mod[expr.args[0]])
            assert isinstance(chain, Chain)
            out.extend(chain.names)
        elif isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            out.append(str(expr.op.name))

    relax.analysis.post_order_visit(mod["main"], one)
    return out


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
    assert names(after) == expected
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


def test_only_modules_are_accepted() -> None:
    from opinfo.byoc.fusion.fuse_qkv import fuse_qkv

    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got int"):
        fuse_qkv(3)
