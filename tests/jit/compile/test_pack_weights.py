"""Weights packed into panels: the form, what is left alone, and what the kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.jit import Aot, Config, Session, compile_shapes
from opinfo.jit.compile.compile_shapes import lowered
from opinfo.jit.compile.pack_weights import pack_weights

from ...byoc.schedule.fused import scheduled, target_of
from ...common.prim_funcs import prim_funcs

Array = np.ndarray[Any, Any]
op = relax.op
#: Panels of 64 floats.
WIDE = target_of("skylake-avx512")


def array(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def module(weights: list[Any], width: int = 24) -> Any:
    """``relu(x @ w + 1)`` for each weight in turn, of x: (n, width)."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), width), "float32"))
    params = [x, *(w for w in weights if isinstance(w, relax.Var))]
    with bb.function("main", params):
        with bb.dataflow():
            y: Any = x
            for w in weights:
                y = bb.emit(op.matmul(y, w))
                y = bb.emit(op.nn.relu(op.add(y, relax.const(1.0))))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def shapes(mod: Any) -> list[tuple[int, ...]]:
    """The shapes of the constant arguments of the calls."""
    out: list[tuple[int, ...]] = []

    def visit(node: Any) -> None:
        if getattr(getattr(node, "op", None), "name", "") == "relax.call_tir":
            out.extend(tuple(int(n) for n in a.ty.shape) for a in node.args[1].fields
                       if not isinstance(a, relax.Var) and a.ty.ndim > 1)  # fmt: skip

    relax.analysis.post_order_visit(mod["main"], visit)
    return out


@pytest.mark.parametrize(
    ("columns", "panels"),
    [(128, (2, 24, 64)), (96, (2, 24, 48)), (160, (5, 24, 32)), (64, (24, 64)), (80, (24, 80))],
    ids=["four vectors", "three", "two", "one panel", "no width divides"],
)
def test_columns_of_a_weight_are_packed(columns: int, panels: tuple[int, ...]) -> None:
    mod = lowered(module([relax.const(array(24, columns))]))
    before = tvm.ir.save_json(mod)
    assert shapes(pack_weights(mod, WIDE)) == [panels]
    assert tvm.ir.save_json(mod) == before


def test_panels_follow_the_vectors_of_the_target() -> None:
    mod = lowered(module([relax.const(array(24, 128))]))
    assert shapes(pack_weights(mod, target_of("haswell"))) == [(4, 24, 32)]


def test_calls_that_share_a_function_are_packed_together_or_not_at_all() -> None:
    w, v = relax.const(array(128, 128)), relax.Var("v", relax.TensorType((128, 128), "float32"))
    assert shapes(pack_weights(lowered(module([w, w], 128)), WIDE)) == [(2, 128, 64)] * 2
    mixed = lowered(module([w, v], 128))
    assert len(prim_funcs(mixed)) == 1
    assert pack_weights(mixed, WIDE) is mixed


def elementwise(w: Any) -> Any:
    """A constant that is read by an elementwise operator only."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), *w.shape), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.add(x, relax.const(w)))
        bb.emit_func_output(out)
    return bb.get()


def test_other_constants_stay_as_they_are() -> None:
    added = lowered(elementwise(array(24, 128)))
    assert pack_weights(added, WIDE) is added
    few = lowered(module([relax.const(array(24, 64))]))
    assert pack_weights(few, WIDE) is few
    gpu = tvm.target.Target("cuda")
    wide = lowered(module([relax.const(array(24, 128))]))
    assert pack_weights(wide, gpu) is wide


@pytest.mark.parametrize(
    "strategy", ["generic", "jit", Aot({"n": (1, 5)})], ids=["generic", "jit", "aot"]
)
def test_kernels_of_packed_weights_compute_the_product(strategy: Any) -> None:
    weights = [array(24, 128), array(128, 96)]
    done = compile_shapes(module([relax.const(w) for w in weights]), strategy)
    with Session(done) as session:
        for n in (5, 5, 13):
            x = array(n, 24)
            y = x
            for w in weights:
                y = np.maximum(y @ w + 1, 0)
            np.testing.assert_allclose(session(x).numpy(), y, rtol=1e-4, atol=1e-3)
            session.settle(60)


def test_strategies_by_operator_apply_to_packed_functions() -> None:
    config = Config("generic", by_op={"relax.matmul": Aot({"n": (4,)})})
    (function,) = compile_shapes(module([relax.const(array(24, 128))]), config, WIDE).functions
    assert function.why == "1 shape"


def test_kernels_read_panels_without_divisions() -> None:
    (func,) = prim_funcs(pack_weights(lowered(module([relax.const(array(24, 128))])), WIDE))
    result = scheduled(func, WIDE)
    reads = [r.partition("]")[0] for r in result.func.script().split("param_0[")[1:]]
    assert result.rules == ("contraction",) and reads
    assert not any("//" in read or "%" in read for read in reads)
