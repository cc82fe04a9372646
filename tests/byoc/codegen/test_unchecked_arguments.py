"""Kernels that only get what their module allocates check no arguments; others do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.byoc.codegen.checks.unchecked_arguments import UNCHECKED, with_unchecked_arguments
from opinfo.byoc.codegen.executable import executable

Emit = Callable[[Any], Any]


def module(write: Callable[[Emit, Any], Any], *extents: Any) -> Any:
    x = relax.Var("x", relax.TensorType(extents or (4, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(write(builder.emit, x))
        builder.emit_func_output(out)
    return legalise_module(builder.get())


def own(mod: Any) -> list[str]:
    out = with_unchecked_arguments(mod)
    return sorted(g.name_hint for g, f in out.functions_items() if UNCHECKED in (f.attrs or {}))


def twice(emit: Emit, x: Any) -> Any:
    return emit(relax.op.concat([emit(relax.op.nn.relu(emit(relax.op.sum(x, [0], True))))] * 2, 0))


def test_what_gets_a_parameter_is_not_marked() -> None:
    assert own(module(twice)) == ["concatenate", "relu"]


def test_a_constant_is_the_modules_own() -> None:
    weight = relax.const(np.ones((4, 1), "float32"))
    assert own(module(lambda emit, x: emit(relax.op.add(emit(relax.op.sum(x, [1], True)), weight)))
               ) == ["add"]  # fmt: skip


def reshaped(emit: Emit, x: Any) -> Any:
    return emit(relax.op.nn.relu(emit(relax.op.reshape(x, (6, 4)))))


def test_a_view_of_a_parameter_is_the_callers() -> None:
    assert own(module(reshaped)) == []
    added = module(lambda emit, x: reshaped(emit, emit(relax.op.add(x, x))))
    assert own(added) == ["relu", "reshape"]


def foreign(emit: Emit, x: Any) -> Any:
    return emit(relax.call_pure_packed("any", x, ty_args=[x.ty]))


@pytest.mark.parametrize(
    "mod",
    [
        module(lambda emit, x: emit(relax.op.nn.relu(foreign(emit, x)))),
        module(twice, tvm.tirx.Var("n", "int64"), 6),
        module(lambda emit, x: emit(relax.op.nn.relu(x))),
    ],
    ids=["returned by a function", "symbolic", "parameter"],
)
def test_what_may_be_anything_is_checked(mod: Any) -> None:
    assert "relu" not in own(mod)


def test_one_call_with_a_parameter_is_enough() -> None:
    def write(emit: Emit, x: Any) -> Any:
        y = emit(relax.op.nn.relu(emit(relax.op.add(x, x))))
        return emit(relax.op.multiply(emit(relax.op.nn.relu(x)), y))

    def without(emit: Emit, x: Any) -> Any:
        return emit(relax.op.nn.relu(emit(relax.op.add(x, x))))

    assert own(module(write)) == [] and own(module(without)) == ["relu"]


def test_a_function_that_others_may_call_is_checked() -> None:
    mod = module(twice)
    mod.update_func(mod.get_global_var("relu"), mod["relu"].with_attr("global_symbol", "relu"))
    assert own(mod) == ["concatenate"]


def test_results_are_the_same_and_only_marked_code_lacks_checks(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    found = []
    for name, mod in (("plain", module(twice)), ("own", with_unchecked_arguments(module(twice)))):
        program = executable(mod, "llvm")
        program.export_library(str(tmp_path / f"{name}.so"))
        machine = relax.VirtualMachine(program, tvm.cpu())
        found.append(machine["main"](tvm.runtime.tensor(x)).numpy())
        code = (tmp_path / f"{name}.so").read_bytes()
        checks = {f for f in ("sum", "relu", "concatenate") if _message(f) in code}
        assert checks == ({"sum", "relu", "concatenate"} if name == "plain" else {"sum"})
    np.testing.assert_array_equal(found[0], found[1])
    expected = np.concatenate([np.maximum(x.sum(0, keepdims=True), 0)] * 2)
    np.testing.assert_allclose(found[1], expected, rtol=1e-5)


def _message(name: str) -> bytes:
    """What the code of a function says of a wrong argument begins with its parameters."""
    return f"{name}(".encode() + {"sum": b"x: ", "relu": b"lv: ", "concatenate": b"lv1: "}[name]
