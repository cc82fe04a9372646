"""Names of values inside an expression are replaced by the values before a loop is scheduled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx

from opinfo.byoc.dims.span import Span
from opinfo.byoc.schedule.nest.inlining import inlined_lets as module
from opinfo.byoc.schedule.nest.inlining.inlined_lets import inlined_lets
from opinfo.jit.aot.kernel_variants import Ranged
from opinfo.jit.aot.merge import merge

from .fused import built, scheduled


def named(extent: Any) -> Any:
    """y[i] = let a = 2 x[i] in let b = a + i in (cos(b) a if i < 12 else x[i])."""
    a, b = (tirx.Var(n, "float32") for n in "ab")
    x = te.placeholder((extent, 16), name="x")

    def element(r: Any, i: Any) -> Any:
        inner = tirx.Let(b, a + tirx.Cast("float32", i), tirx.cos(b) * a)
        return tirx.if_then_else(i < 12, tirx.Let(a, x[r, i] * 2.0, inner), x[r, i])

    func = te.create_prim_func([x, te.compute((extent, 16), element, "y")])
    return func.with_attr("tirx.noalias", True)


def _lets(func: Any) -> int:
    lets: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.Let, lets.append))
    return len(lets)


def test_a_schedule_beside_the_function_it_replaces_builds_and_computes_the_same() -> None:
    func = named(tirx.Var("n", "int64"))
    before = tvm.ir.save_json(func)
    closed = inlined_lets(func)
    assert tvm.ir.save_json(func) == before
    assert (_lets(func), _lets(closed)) == (2, 0)
    kernel = built(merge(closed, [Ranged(scheduled(func).func, {"n": Span(1)})]))
    x = np.random.default_rng(0).standard_normal((5, 16)).astype("float32")
    out = tvm.runtime.empty((5, 16), "float32")
    kernel(tvm.runtime.tensor(x), out)
    i = np.arange(16, dtype="float32")
    expected = np.where(i < 12, np.cos(2 * x + i) * 2 * x, x)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_function_without_names_stays() -> None:
    func = inlined_lets(named(4))
    assert inlined_lets(func).same_as(func)


def test_large_copies_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    assert _lets(inlined_lets(named(4))) == 2
