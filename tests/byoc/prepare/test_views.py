# mypy: disable-error-code="no-untyped-def"
"""Preparation for backends that read views in place: merged projections, a move for each slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from opinfo.byoc.matching.lowered import read
from opinfo.byoc.patterns.value_bounds import bounds
from opinfo.byoc.prepare.merging.merge_projections import merge_projections
from opinfo.byoc.prepare.prepare import prepare
from opinfo.byoc.prepare.split_slices import own_moves

from ...common.run import run

op = relax.op


def _module(build: Any, *shapes: tuple[tuple[int, ...], str]) -> Any:
    given = [relax.Var(f"x{k}", relax.TensorType(s, d)) for k, (s, d) in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, *given))
        builder.emit_func_output(out)
    return builder.get()


def _calls(mod: Any, name: str) -> int:
    found = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return sum(isinstance(v, relax.Call) and getattr(v.op, "name", "") == f"relax.{name}"
               for v in found)  # fmt: skip


def _const(seed: int, *shape: int) -> Any:
    return relax.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


WIDTHS = (12, 4, 8)


def _projections(emit: Any, x: Any, bias: bool = True, view: Any = None) -> Any:
    """Three products, each of a reshape of one tensor."""
    out = []
    for k, n in enumerate(WIDTHS):
        y = emit(op.matmul(emit(op.reshape(x, (6, 5))), _const(k, 5, n)))
        if bias:
            y = emit(op.add(y, _const(k + 10, n)))
        out.append(emit(op.reshape(y, (2, 3, n // 4, 4))) if view is None else emit(view(y)))
    return relax.Tuple(out)


@pytest.mark.parametrize("bias", [True, False])
def test_products_of_one_tensor_become_one(bias: bool) -> None:
    mod = _module(lambda e, x: _projections(e, x, bias), ((2, 3, 5), "float32"))
    merged = merge_projections(mod)
    assert (_calls(merged, "matmul"), _calls(merged, "strided_slice")) == (1, 3)
    assert _calls(merged, "add") == bias
    x = np.random.default_rng(9).standard_normal((2, 3, 5)).astype("float32")
    for found, expected in zip(run(merged, [x]), run(mod, [x]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _two(emit: Any, x: Any, y: Any) -> Any:
    return relax.Tuple([emit(op.reshape(emit(op.matmul(t, _const(k, 5, 8))), (3, 2, 4)))
                        for k, t in enumerate((x, y))])  # fmt: skip


def _one_with_bias(emit: Any, x: Any) -> Any:
    y = emit(op.reshape(emit(op.matmul(x, _const(0, 5, 8))), (3, 2, 4)))
    z = emit(op.add(emit(op.matmul(x, _const(1, 5, 8))), _const(2, 8)))
    return relax.Tuple([y, emit(op.reshape(z, (3, 2, 4)))])


def _chained(emit: Any, x: Any) -> Any:
    y = emit(op.reshape(emit(op.matmul(x, _const(0, 5, 5))), (3, 5)))
    return emit(op.reshape(emit(op.matmul(y, _const(1, 5, 5))), (15,)))


@pytest.mark.parametrize(("build", "shapes"), [
    (_two, ((3, 5), (3, 5))),
    (_one_with_bias, ((3, 5),)),
    (_chained, ((3, 5),)),
    (lambda e, x: _projections(e, x, view=op.nn.relu), ((2, 3, 5),)),
])  # fmt: skip
def test_other_products_stay(build: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    mod = _module(build, *[(s, "float32") for s in shapes])
    tvm.ir.assert_structural_equal(merge_projections(mod), mod)


def test_weights_of_several_dtypes_stay_apart() -> None:
    """One constant of both would have the first one's dtype, and wrap the second one's numbers."""
    weights = [np.full((5, 8), 3, "int8"), np.full((5, 8), 1000, "int32")]
    mod = _module(lambda e, x: relax.Tuple([
        e(op.reshape(e(op.matmul(x, relax.const(w), "int32")), (24,))) for w in weights
    ]), ((3, 5), "int8"))  # fmt: skip
    x = np.arange(15, dtype="int8").reshape(3, 5)
    got = run(relax.transform.LegalizeOps()(merge_projections(mod)), [x])
    for a, w in zip(got, weights, strict=True):
        np.testing.assert_array_equal(a, (x.astype("int64") @ w).reshape(24))


@I.ir_module
class Shared:
    @R.function
    def main(x: R.Tensor((6, 8), "float32")):
        with R.dataflow():
            a = R.reshape(x, (3, 2, 8))
            b = R.permute_dims(a, axes=[1, 0, 2])
            c = R.strided_slice(b, axes=[0], begin=[0], end=[1])
            d = R.strided_slice(b, axes=[0], begin=[1], end=[2])
            out = (c, d)
            R.output(out)
        return out


@I.ir_module
class Own:
    @R.function
    def main(x: R.Tensor((6, 8), "float32")):
        with R.dataflow():
            a = R.reshape(x, (3, 2, 8))
            b = R.permute_dims(a, axes=[1, 0, 2])
            c = R.strided_slice(b, axes=[0], begin=[0], end=[1])
            a2 = R.reshape(x, (3, 2, 8))
            b2 = R.permute_dims(a2, axes=[1, 0, 2])
            d = R.strided_slice(b2, axes=[0], begin=[1], end=[2])
            out = (c, d)
            R.output(out)
        return out


@I.ir_module
class Needed:
    @R.function
    def main(x: R.Tensor((6, 8), "float32")):
        with R.dataflow():
            b = R.permute_dims(x, axes=[1, 0])
            c = R.strided_slice(b, axes=[0], begin=[0], end=[1])
            d = R.exp(b)
            out = (c, d)
            R.output(out)
        return out


def test_each_slice_of_a_moved_tensor_gets_its_own_move() -> None:
    tvm.ir.assert_structural_equal(own_moves(Shared), Own)


def test_a_move_that_something_else_reads_stays_one() -> None:
    tvm.ir.assert_structural_equal(own_moves(Needed), Needed)


# --- Bounds


INF = float("inf")
HALF = "float16"


def _where(low: float, dtype: str = HALF) -> Any:
    return lambda e, m: e(op.where(m, relax.const(0.0, dtype), relax.const(low, dtype)))


def _inverted(emit: Any, m: Any) -> Any:
    kept = emit(op.subtract(relax.const(1.0, HALF), emit(op.astype(m, HALF))))
    return emit(op.multiply(kept, relax.const(-1e4, HALF)))


@pytest.mark.parametrize(("build", "dtype", "expected"), [
    (_where(-1e4), "bool", (-1e4, 0.0)),
    (_where(-INF), "bool", None),
    (_inverted, "bool", (-1e4, 0.0)),
    (lambda e, m: e(op.astype(_where(-1e5, "float32")(e, m), HALF)), "bool", None),
    (lambda e, m: e(op.reshape(_where(-8.0)(e, m), (5, 3))), "bool", (-8.0, 0.0)),
    (lambda e, x: e(op.add(x, relax.const(1.0, HALF))), HALF, None),
    (lambda e, x: e(op.exp(x)), HALF, None),
    (lambda e, x: e(op.astype(x, "float32")), "int8", (-128.0, 127.0)),
    (lambda e, x: e(op.add(x, x)), "int8", (-128.0, 127.0)),  # it wraps around
    (lambda e, x: e(op.add(e(op.astype(x, "int64")), relax.const(1, "int64"))), "int32",
     (-(2.0**31) + 1, 2.0**31)),
    (lambda e, x: e(op.multiply(x, relax.const(2, "int64"))), "int64", None),
    (lambda e, x: e(op.argmax(x, 1)), "float32", (-1.0, 4.0)),
    (lambda e, x: e(op.add(e(op.argmax(x)), relax.const(2, "int64"))), "float32", (1.0, 16.0)),
    (lambda e, x: e(op.floor_mod(x, relax.const(4, "int64"))), "int64", (0.0, 3.0)),
    (lambda e, x: e(op.floor_mod(x, relax.const(-4, "int64"))), "int64", None),
    (lambda e, x: e(op.floor_divide(e(op.astype(x, "int64")), relax.const(10, "int64"))), "int8",
     (-13.0, 12.0)),
    (lambda e, m: e(op.astype(_where(-1.5, "float32")(e, m), "int64")), "bool", (-2.0, 0.0)),
    (lambda e, m: e(op.astype(_where(-INF, "float64")(e, m), "int64")), "bool", None),
    (lambda e, x: e(op.concat([e(op.argmax(x, 1)), relax.const(np.array([7, -9]), "int64")])),
     "float32", (-9.0, 7.0)),
])  # fmt: skip
def test_bounds_follow_from_the_operators(build: Any, dtype: str, expected: Any) -> None:
    lowered = read(prepare(_module(build, ((3, 5), dtype))), "a test")
    assert bounds(lowered.ops[-1].outputs[0], lowered.infos) == expected
