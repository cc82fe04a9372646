"""What depends on constants only is computed once, when a module is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.byoc.prepare.constants import constant_calls
from opinfo.jit import Session, compile_shapes
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.runtime.function import Function
from tests.jit import modules

#: More elements than TVM's FoldConstant folds of a creator.
WIDE = 48
Emit = Callable[[Any], Any]
ops = relax.op


def module(operand: Callable[[Emit, Any], Any]) -> Any:
    """``x @ operand`` of x: (n, WIDE); ``operand`` gets a weight of (WIDE, WIDE)."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), WIDE), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(ops.matmul(x, operand(bb.emit, relax.const(weight()))))
        bb.emit_func_output(out)
    return bb.get()


def weight() -> modules.Array:
    return np.random.default_rng(0).standard_normal((WIDE, WIDE)).astype("float32")


def called(mod: Any) -> list[str]:
    """The PrimFuncs that main calls."""
    names: list[str] = []
    tvm_ffi.structural_walk(mod["main"], (relax.Call, lambda call: names.append(
        call.args[0].name_hint if call.op.name == "relax.call_tir" else call.op.name)))  # fmt: skip
    return names


def ones(emit: Emit) -> Any:
    return emit(ops.ones((WIDE, WIDE), "float32"))


def packed(emit: Emit, w: Any) -> Any:
    """Reshape, transpose, cast and concatenate."""
    tiles = emit(ops.permute_dims(emit(ops.reshape(w, (4, WIDE // 4, WIDE))), [0, 2, 1]))
    flat = emit(ops.reshape(tiles, (WIDE, WIDE)))
    doubled = emit(ops.concat([flat, flat], 1))
    return emit(ops.astype(emit(ops.astype(doubled, "float64")), "float32"))


def numpy_packed(w: modules.Array) -> modules.Array:
    flat = w.reshape(4, WIDE // 4, WIDE).transpose(0, 2, 1).reshape(WIDE, WIDE)
    return np.concatenate([flat, flat], 1)


CASES: dict[str, tuple[Callable[[Emit, Any], Any], Callable[[Any], Any]]] = {
    "transpose": (lambda emit, w: emit(ops.permute_dims(w)), lambda w: w.T),
    "pack": (packed, numpy_packed),
    "mask": (lambda emit, w: emit(ops.tril(ones(emit))), lambda w: np.tril(np.ones_like(w))),
    "masked": (lambda emit, w: emit(ops.multiply(w, emit(ops.triu(emit(ops.add(
        ones(emit), ones(emit))), 1)))), lambda w: w * np.triu(np.full_like(w, 2), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_call_is_left_and_it_computes_the_same(name: str) -> None:
    operand, expected = CASES[name]
    mod = module(operand)
    assert called(lowered(mod)) == ["matmul"]
    x = np.random.default_rng(1).standard_normal((5, WIDE)).astype("float32")
    with Session(compile_shapes(mod, "generic")) as session:
        np.testing.assert_allclose(session(x).numpy(), x @ expected(weight()), rtol=1e-4, atol=1e-4)


def test_a_creator_that_an_activation_reads_is_fused_instead() -> None:
    """Folded, it would only enlarge the library."""
    mod = module(lambda emit, w: w)
    bb = relax.BlockBuilder()
    (x,) = mod["main"].params
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(ops.concat([x, ones(bb.emit)], 0))
        bb.emit_func_output(out)
    assert called(lowered(bb.get())) == ["ones", "concatenate"]


def test_a_creator_beyond_the_limit_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_calls, "LARGEST", 4 * WIDE * WIDE - 1)
    mod = module(lambda emit, w: emit(ops.tril(ones(emit))))
    assert called(lowered(mod)) == ["fused_ones_tril", "matmul"]


def test_weights_that_are_parameters_are_transposed_by_a_function_of_their_own() -> None:
    """TVM's LiftTransformParams splits main; both functions are in the library."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), WIDE), "float32"))
    w = relax.Var("w", relax.TensorType((WIDE, WIDE), "float32"))
    with bb.function("main", [x, w], {"num_input": 1}):
        with bb.dataflow():
            out = bb.emit_output(ops.matmul(x, bb.emit(ops.permute_dims(w))))
        bb.emit_func_output(out)
    lifted = relax.transform.LiftTransformParams()(bb.get())
    assert called(lowered(lifted)) == ["matmul"]
    rows = np.ones((3, WIDE), "float32")
    with Session(compile_shapes(lifted, "generic")) as session:
        transform: Function = session["main_transform_params"]
        weights = transform([tvm.runtime.tensor(weight())])
        result = session(rows, *weights)
    np.testing.assert_allclose(result.numpy(), rows @ weight().T, rtol=1e-4, atol=1e-4)
