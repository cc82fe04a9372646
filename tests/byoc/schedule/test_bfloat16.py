"""Scheduled kernels of bfloat16 compile, compute in float32, and round where the program does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.schedule import Scheduled, schedule

Array = npt.NDArray[Any]
HALF, SHAPE = "bfloat16", (48, 64)


def prim_func(body: Callable[..., Any], count: int, symbolic: bool = False) -> Any:
    """The fused PrimFunc of an expression of some inputs."""
    builder = relax.BlockBuilder()
    shape = [tvm.tirx.Var(n, "int64") for n in "mn"] if symbolic else SHAPE
    inputs = [relax.Var(f"x{k}", relax.TensorType(shape, HALF)) for k in range(count)]
    with builder.function("main", inputs):
        with builder.dataflow():
            output = builder.emit_output(builder.normalize(body(*inputs)))
        builder.emit_func_output(output)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(),
              relax.transform.FuseOps(), relax.transform.FuseTIR()]  # fmt: skip
    mod = tvm.transform.Sequential(passes)(builder.get())
    (func,) = (f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    return func


def scheduled(
    body: Callable[..., Any], *arrays: Array, out: tuple[int, ...] = SHAPE, symbolic: bool = False
) -> Array:
    """What the scheduled kernel computes, as float32."""
    result = schedule(prim_func(body, len(arrays), symbolic), native_target())
    assert isinstance(result, Scheduled), result
    func = result.func.with_attr("global_symbol", "main")
    output = tvm.runtime.tensor(np.zeros(out, ml_dtypes.bfloat16))
    built = tvm.compile(tvm.IRModule({"main": func}), target=native_target())
    built["main"](*map(tvm.runtime.tensor, arrays), output)
    actual = output.numpy()
    bits = actual.view(ml_dtypes.bfloat16) if actual.dtype == "uint16" else actual
    return np.asarray(bits.astype("float32"))


def halves(number: int, scale: float = 60.0) -> Array:
    values = np.random.default_rng(number).standard_normal(SHAPE) * scale
    return np.asarray(values.astype(ml_dtypes.bfloat16))


def wide(x: Any) -> Any:
    return op.astype(x, "float32")


def exact(x: Array) -> Array:
    return x.astype("float64")


CASES: dict[str, tuple[Any, Any, int]] = {
    "a function that is used twice": (
        op.nn.silu, lambda x: x / (1 + np.exp(-x)), 1),
    "what is read is clipped in float32": (
        lambda x: op.astype(op.clip(wide(x), -3, 3), HALF), lambda x: np.clip(x, -3, 3), 1),
    "a comparison": (
        lambda x, y: op.where(op.less(x, y), op.tanh(x), y),
        lambda x, y: np.where(x < y, np.tanh(x), y), 2),
    "a minimum of a sum": (
        lambda x, y: op.minimum(op.multiply(op.add(x, y), x), y),
        lambda x, y: np.minimum((x + y) * x, y), 2),
    "a softmax": (
        op.nn.softmax, lambda x: np.exp(x - x.max(1, keepdims=True))
        / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True), 1),
    "a product": (
        lambda x, y: op.einsum((x, y), "ij,kj->ik"), lambda x, y: x @ y.T, 2),
}  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_numpy_does(name: str, symbolic: bool) -> None:
    """Those with symbolic sizes read and store through flat views."""
    if symbolic and name == "a product":
        pytest.skip("sizes that must be equal have different names")
    body, oracle, count = CASES[name]
    arrays = [halves(k) for k in range(count)]
    expected = oracle(*map(exact, arrays))
    actual = scheduled(body, *arrays, out=expected.shape, symbolic=symbolic)
    atol = 2e-2 * np.abs(expected).max() if "sum" in name or "product" in name else 1e-2
    np.testing.assert_allclose(actual, expected, rtol=2e-2, atol=atol)


def test_a_cast_rounds_inside_of_a_kernel() -> None:
    """What is left of x + y after its upper 8 bits is 0 without the cast."""
    x, y = halves(0, 1.0), halves(1, 100.0)

    def rest(x: Any, y: Any) -> Any:
        total = op.add(wide(x), wide(y))
        return op.astype(op.subtract(total, wide(op.astype(total, HALF))), HALF)

    total = x.astype("float32") + y.astype("float32")
    expected = total - total.astype(ml_dtypes.bfloat16).astype("float32")
    assert np.count_nonzero(expected) > 1000
    np.testing.assert_allclose(scheduled(rest, x, y), expected, rtol=1e-2)
