"""Products of float16 in float32: what is widened, what stays, and that results are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.byoc.compile import compile_module
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.prepare.mutation.mutate import named
from opinfo.byoc.prepare.prepare import prepare
from opinfo.byoc.prepare.widen_halves import widen_halves

from ...common.run import run
from ...layout import nets

op = relax.op
IMAGE = (1, 4, 6, 6)
RNG = np.random.default_rng(0)
FIRST, SECOND = (RNG.standard_normal((4, 4, 1, 1)).astype("float16") for _ in range(2))


def net(build: Any, *shapes: tuple[Any, ...]) -> Any:
    return nets.net(build, *(shapes or (IMAGE,)), legal=False, dtype="float16")


def _conv(e: Any, x: Any, weights: Any, **attrs: Any) -> Any:
    return e(op.nn.conv2d(x, weights, out_dtype="float32", **attrs))


def _halves(e: Any, r: Any, x: Any) -> Any:
    """conv → relu → max pool → conv, rounded to float16 after each."""
    y = e(op.astype(_conv(e, x, relax.const(FIRST)), "float16"))
    y = e(op.nn.max_pool2d(e(op.nn.relu(y)), (2, 2), (2, 2)))
    return e(op.astype(_conv(e, y, relax.const(SECOND)), "float16"))


def _widened(e: Any, r: Any, x: Any) -> Any:
    first = e(op.astype(relax.const(FIRST), "float32"))
    y = e(op.astype(_conv(e, e(op.astype(x, "float32")), first), "float16"))
    y = e(op.nn.relu(e(op.astype(y, "float32"))))
    y = e(op.nn.max_pool2d(y, (2, 2), (2, 2)))
    second = e(op.astype(relax.const(SECOND), "float32"))
    return e(op.astype(_conv(e, y, second), "float16"))


def _twice(e: Any, r: Any, x: Any) -> Any:
    """Two convolutions of one tensor."""
    w = relax.const(FIRST)
    return e(op.add(_conv(e, x, w), _conv(e, x, w)))


def _twice_widened(e: Any, r: Any, x: Any) -> Any:
    wide, w = e(op.astype(x, "float32")), e(op.astype(relax.const(FIRST), "float32"))
    return e(op.add(_conv(e, wide, w), _conv(e, wide, w)))


def _joined(e: Any, r: Any, x: Any) -> Any:
    y = e(op.astype(_conv(e, x, relax.const(FIRST)), "float16"))
    y = e(op.concat([y, x], 1))
    return e(op.astype(e(op.nn.relu(y)), "float32"))


def _joined_widened(e: Any, r: Any, x: Any) -> Any:
    wide, w = e(op.astype(x, "float32")), e(op.astype(relax.const(FIRST), "float32"))
    y = e(op.astype(_conv(e, wide, w), "float16"))
    y = e(op.concat([e(op.astype(y, "float32")), wide], 1))
    return e(op.nn.relu(y))


@pytest.mark.parametrize(("before", "expected"), [
    (_halves, _widened), (_twice, _twice_widened), (_joined, _joined_widened)])  # fmt: skip
def test_products_and_moves_are_of_float32(before: Any, expected: Any) -> None:
    mod = net(before)
    text, canonical = mod.script(), relax.transform.CanonicalizeBindings()
    fold = relax.transform.EliminateCommonSubexpr()
    got, goal = (canonical(fold(m)) for m in (widen_halves(mod), net(expected)))
    tvm.ir.assert_structural_equal(_in_order(got), _in_order(goal), map_free_vars=True)
    assert mod.script() == text
    x = np.random.default_rng(1).standard_normal(IMAGE).astype("float16")
    np.testing.assert_array_equal(run(widen_halves(mod), [x])[0], run(mod, [x])[0])


def _in_order(mod: Any) -> Any:
    return relax.transform.TopologicalSort("depth-first", "from-outputs")(mod)


def _pool(e: Any, r: Any, x: Any) -> Any:
    y = e(op.astype(_conv(e, x, relax.const(FIRST)), "float16"))
    return e(op.nn.max_pool2d(y, (3, 3), (2, 2), (1, 1)))


def test_a_pool_that_is_padded_stays_of_float16() -> None:
    """It pads with the least number of its dtype, which is another one in float32."""
    calls = [b.value for b in widen_halves(net(_pool))["main"].body.blocks[0].bindings]
    pools = [c for c in calls if named(c, "relax.nn.max_pool2d")]
    assert [str(pool.ty.dtype) for pool in pools] == ["float16"]


@pytest.mark.parametrize(("rows", "dtype", "widened"), [
    (15, "float32", False), (16, "float32", True), (16, "float16", False)])  # fmt: skip
def test_products_of_many_rows_with_sums_of_float32(rows: int, dtype: str, widened: bool) -> None:
    weights = relax.const(np.ones((8, 5), "float16"))
    mod = net(lambda e, r, x: e(op.matmul(x, weights, dtype)), (rows, 8))
    assert (not tvm_ffi.structural_equal(widen_halves(mod), mod)) == widened


def test_results_are_rounded_where_the_module_rounds_them() -> None:
    """Sums are between numbers of float16, and beyond its largest one."""
    x = np.random.default_rng(2).standard_normal(IMAGE).astype("float16")
    x[0, :, :2, :2] = 6e4 * np.sign(FIRST[0].astype("float32")).reshape(4, 1, 1)
    made = compile_module(net(_halves), ["onednn"])
    assert [t.ops.count("relax.nn.conv2d") for t in made.dispatched.taken].count(1) == 2
    got = made.machine()["main"](tvm.runtime.tensor(x)).numpy()
    wide = np.einsum("oi,nihw->nohw", FIRST[:, :, 0, 0].astype("float64"), x.astype("float64"))
    with np.errstate(over="ignore"):
        half = np.maximum(wide, 0).astype("float16")
    half = half.reshape(1, 4, 3, 2, 3, 2).max((3, 5)).astype("float64")
    assert np.isinf(half).any() and not np.isinf(half).all()
    finite = np.isfinite(half).all(1)
    second = SECOND[:, :, 0, 0].astype("float64")
    expected = np.einsum("oi,nihw->nohw", second, half)
    for channel in range(4):
        np.testing.assert_allclose(got[:, channel][finite], expected[:, channel][finite],
                                   rtol=2e-3, atol=2e-3)  # fmt: skip
    assert not np.isfinite(got.astype("float64").transpose(0, 2, 3, 1)[~finite]).any()


@pytest.mark.parametrize(("backends", "dtype"), [
    (["onednn", "blas", "openvino", "onnxruntime", "weight_only", "experts"], "float32"),
    (["onednn", "example_npu"], "float16"), ([], "float16")])  # fmt: skip
def test_backends_that_may_take_float16_get_it(backends: list[str], dtype: str) -> None:
    """So does TVM alone."""
    lowered = read(prepare(net(_twice), backends), "test")
    products = [o for o in lowered.ops if lowered.name_of(o) == "relax.nn.conv2d"]
    assert {v.dtype for o in products for v in o.values if v is not None} == {dtype, "float32"}
