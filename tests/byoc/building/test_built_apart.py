"""Functions that LLVM's level 3 does not make faster are compiled at level 2, beside the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from opinfo.analysis.lifting.tir.node import items
from opinfo.byoc.building.built_apart import EXTERNAL, built_apart
from opinfo.byoc.building.cpu_program import cpu_program
from opinfo.byoc.building.llvm_level import at_level
from opinfo.byoc.prepare.fuse import fuse

from .scheduled_modules import run

op = relax.op
LEVEL_2 = {"kind": "llvm", "opt-level": 2}


def _net(resized: bool) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 3, 4), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(op.nn.relu(builder.emit(op.add(x, x))))
        y = builder.emit(op.nn.softmax(y, 3))
        if resized:
            y = builder.emit(op.image.resize2d(y, (6, 8), method="nearest_neighbor"))
        builder.emit_func_output(y)
    mod = relax.transform.ConvertToDataflow()(builder.get())
    return fuse(relax.transform.LegalizeOps()(mod))


@pytest.mark.parametrize(("target", "levels"), [
    ("llvm", {True: [2, 3], False: [2]}), (LEVEL_2, {True: [2], False: [2]}),
    ({"kind": "llvm", "opt-level": 1}, {True: [1], False: [1]}),
])  # fmt: skip
@pytest.mark.parametrize("resized", [True, False])
def test_functions_are_compiled_at_the_level_that_they_need(
    target: Any, levels: Any, resized: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used: list[int] = []
    build = tvm.tirx.build

    def spy(mod: Any, target: Any = None, pipeline: Any = None) -> Any:
        used.append(int(target.attrs.get("opt-level", 3)))
        return build(mod, target=target, pipeline=pipeline)

    monkeypatch.setattr("tvm.tirx.build", spy)
    program, _ = cpu_program(_net(resized), tvm.target.Target(target), ())
    assert used == levels[resized]
    program.export_library(str(tmp_path / "lib.so"))
    x = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype("float32")
    e = np.exp(2 * np.maximum(x, 0))
    expected = e / e.sum(3, keepdims=True)
    if resized:
        expected = expected.repeat(2, 2).repeat(2, 3)
    for each in (program, tvm.runtime.load_module(str(tmp_path / "lib.so"))):
        np.testing.assert_allclose(run(each, [x]), expected, rtol=1e-5)


def test_a_target_that_is_not_for_the_cpu_keeps_its_level() -> None:
    assert at_level({"kind": "cuda", "arch": "sm_90"}) is None
    level = at_level({"kind": "llvm", "num-cores": 2})
    assert level is not None and level.attrs["num-cores"] == 2


@I.ir_module(s_tir=True)
class Lowered:
    @T.prim_func(s_tir=True)
    def f(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "first"})
        for i in range(4):
            b[i] = a[i] + a[i]

    @T.prim_func(s_tir=True)
    def g(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "second"})
        for i in range(4):
            b[i] = a[i] * a[i]

    @R.function(pure=False)
    def main(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")) -> R.Any:
        cls = Lowered
        cls.f(a, b)
        cls.g(a, b)
        z = R.call_packed("takes", cls.g, ty_args=R.Any)
        return z


def test_calls_name_the_code_that_is_apart() -> None:
    """A function that is an argument stays."""
    lowered: Any = Lowered
    script = lowered.script()
    done = built_apart(lowered, {"f", "g"}, tvm.target.Target(LEVEL_2))
    assert lowered.script() == script
    assert {gvar.name_hint for gvar, _ in done.functions_items()} == {"g", "main"}
    relax.analysis.well_formed(done)  # raises
    first, second, *_ = (b.value.op for b in items(done["main"].body.blocks[0].bindings))
    assert first.global_symbol == "first" and second.same_as(done.get_global_var("g"))
    (code,) = done.attrs[EXTERNAL]
    a, b = (tvm.runtime.tensor(np.full(4, v, "float32")) for v in (3, 0))
    code["first"](a, b)
    np.testing.assert_array_equal(b.numpy(), np.full(4, 6, "float32"))
    assert built_apart(lowered, {"g"}, tvm.target.Target(LEVEL_2)) is lowered
    more = lowered.with_attr(EXTERNAL, [code])
    first, _ = built_apart(more, {"f"}, tvm.target.Target(LEVEL_2)).attrs[EXTERNAL]
    assert first.same_as(code)


@I.ir_module(s_tir=True)
class Calling:
    @T.prim_func(private=True, s_tir=True)
    def half(a: T.float32) -> T.float32:
        return a * T.float32(0.5)

    @T.prim_func(s_tir=True)
    def f(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            b[i] = Calling.half(a[i])

    @R.function(pure=False)
    def main(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")) -> R.Any:
        cls = Calling
        z = cls.f(a, b)
        return z


def test_functions_that_call_others_stay_with_them() -> None:
    calling: Any = Calling
    assert built_apart(calling, {"f", "half"}, tvm.target.Target(LEVEL_2)) is calling
