"""Reads stay before an update in place when operators are fused, and when products are merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import tirx as T

import opinfo
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.merging.merge_products import merge_products

from ... import scaling
from ...common.run import run

op = relax.op
X = np.random.default_rng(1).uniform(-1, 1, (4, 6)).astype("float32")
SUM = X + 1
SOFTMAX = np.exp(2 * SUM) / np.exp(2 * SUM).sum(axis=1, keepdims=True)
#: What is computed of a tensor before its update, and of that and the updated tensor afterwards.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Any]] = {
    "fused": (op.exp, lambda before, new: op.add(before, new), np.exp(SUM) + SOFTMAX),
    "view": (lambda x: op.reshape(x, (24,)),
             lambda before, new: op.add(op.exp(before), op.reshape(new, (24,))),
             (np.exp(SUM) + SOFTMAX).reshape(24)),
}  # fmt: skip


@T.prim_func(private=True, s_tir=True)
def doubled_row(x: T.Buffer((T.int64(1), T.int64(16)), "float32")) -> None:
    for j in range(T.int64(16)):
        x[0, j] = x[0, j] * T.float32(2)


def module(before: Any, after: Any) -> Any:
    """``y = after(before(s), softmax(doubled(s)))`` of ``s = x + 1``."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4, 6), "float32"))
    gvar = builder.add_func(scaling.doubled, "doubled")
    with builder.function("main", [x]):
        with builder.dataflow():
            s = builder.emit(op.add(x, relax.const(np.float32(1))))
            old = builder.emit(builder.normalize(before(s)))
            new = builder.emit(op.call_tir_inplace(gvar, [s], [0], s.ty))
            new = builder.emit(op.nn.softmax(new))
            out = builder.emit_output(builder.normalize(after(old, new)))
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


@pytest.mark.parametrize("case", CASES)
def test_fusion_does_not_read_what_was_updated(case: str) -> None:
    before, after, expected = CASES[case]
    mod = module(before, after)
    text = mod.script()
    fused = fuse(mod)
    np.testing.assert_allclose(run(fused, [X])[0], expected, rtol=1e-5)
    assert mod.script() == text


def test_compiled_with_tvm_alone() -> None:
    before, after, expected = CASES["fused"]
    compiled = opinfo.compile(module(before, after), backends=())
    np.testing.assert_allclose(compiled.run(X), expected, rtol=1e-5)


def test_operators_behind_an_update_are_fused() -> None:
    mod = module(op.exp, lambda before, new: op.multiply(op.negative(new), before))
    names = [g.name_hint for g in fuse(mod).functions if g.name_hint.startswith("fused")]
    assert len(names) == 1


def test_products_around_an_update_stay_apart() -> None:
    """They have the same weights, and the second one reads what the first one's operand becomes."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 16), "float32"))
    gvar = builder.add_func(doubled_row, "doubled")
    weights = np.random.default_rng(0).uniform(-1, 1, (16, 16)).astype("float32")
    with builder.function("main", [x]):
        with builder.dataflow():
            s = builder.emit(op.add(x, relax.const(np.float32(1))))
            out = [builder.emit_output(op.matmul(s, relax.const(weights)))]
            new = builder.emit(op.call_tir_inplace(gvar, [s], [0], s.ty))
            out.append(builder.emit_output(op.matmul(new, relax.const(weights))))
        builder.emit_func_output(relax.Tuple(out))
    row = np.random.default_rng(1).uniform(-1, 1, (1, 16)).astype("float32")
    got = run(relax.transform.LegalizeOps()(merge_products(builder.get())), [row])
    for a, b in zip(got, ((row + 1) @ weights, 2 * (row + 1) @ weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
