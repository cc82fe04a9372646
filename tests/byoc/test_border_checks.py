"""A model's checks of indices run before the file in a runtime that has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import SharedWork
from opinfo.byoc.compile_file import FileRefused
from opinfo.byoc.dispatching.choice.plan_file import FILE
from opinfo.byoc.matching.border_checks import FEW, BorderChecks, border_checks
from opinfo.byoc.matching.lowered import read
from opinfo.jit.arguments.index_checks import checked_indices

from .border_modules import REFUSED, NoInputs
from .onnx_runtimes.wide_cases import F32, I64, in_openvino, model, op, oracle

I32 = onnx.TensorProto.INT32
needs_openvino = pytest.mark.skipif(
    bool(find("openvino").available() or find("onnxruntime").available()), reason="no OpenVINO"
)
X = np.arange(12, dtype="float32").reshape(4, 3)


def _rows(*nodes: Any, constants: Any = None, **inputs: Any) -> Any:
    """Rows of `x` at indices that nodes compute."""
    last = [*nodes, op("Gather", ["x", "i"], "y")]
    shape: Any = [None, 3]
    return model(last, {**inputs, "x": (F32, [4, 3])}, {"y": (F32, shape)}, constants or {})


ROW, ONE = {"zero": np.int64(0)}, np.array([1], "int32")
EDGES = np.array([[0, 1, -4, 3, 2], [9, -9, 2**40, 9, 9]], "int64")
#: A file, inputs whose indices are inside, and elements that lead to indices which are outside.
MODELS: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "a row": (
        _rows(op("Gather", ["e", "zero"], "i"), e=(I64, [2, 5]), constants=ROW),
        {"e": EDGES, "x": X}, [4, -5, 2**32, -(2**32)],
    ),
    "a sum": (
        _rows(op("Add", ["e", "one"], "i"), e=(I32, [3]), constants={"one": ONE}),
        {"e": np.array([2, -5, 0], "int32"), "x": X}, [3, -6, 2**31 - 1],
    ),
    "a cast of a float": (
        _rows(op("Floor", ["e"], "f"), op("Cast", ["f"], "i", to=I32), e=(F32, [2])),
        {"e": np.array([3.9, -4.0], "float32"), "x": X}, [4.0, -4.1],
    ),
    "one of several parts": (
        _rows(op("Split", ["e"], "i"), e=(I64, [4])), {"e": np.array([1, 2, 5, 9]), "x": X}, [4],
    ),
    "two indices": (
        _rows(op("Gather", ["e", "zero"], "i"), op("Gather", ["e", "last"], "j"),
              op("Gather", ["x", "j"], "z"), e=(I64, [2, 2]),
              constants={**ROW, "last": np.int64(1)}),
        {"e": np.array([[0, 1], [3, -4]]), "x": X}, [4, -5],
    ),
    "the only input": (
        model([op("Gather", ["e", "zero"], "i"), op("Gather", ["table", "i"], "y")],
              {"e": (I64, [2, 5])}, {"y": (F32, [5, 3])}, {**ROW, "table": X}),
        {"e": EDGES}, [4],
    ),
}  # fmt: skip
split = MODELS["one of several parts"][0].graph
split.node[0].output.append("rest")
split.node[0].attribute.append(onnx.helper.make_attribute("num_outputs", 2))
MODELS["two indices"][0].graph.output.append(
    onnx.helper.make_tensor_value_info("z", F32, [2, 3]))  # fmt: skip


@needs_openvino
@pytest.mark.parametrize("name", MODELS)
def test_a_file_after_checks(name: str, tmp_path: Path) -> None:
    """The build returns what the one without the file does, and fails where that fails."""
    file, inputs, outside = MODELS[name]
    built = in_openvino(file, tmp_path)
    assert built.result.dispatched is not None
    (region,) = built.result.dispatched.taken
    assert (region.backend, region.pattern) == ("openvino", FILE)
    default = opinfo.compile(opinfo.load(tmp_path / "model.onnx"), [])
    results, expected = (_all(b.run(*inputs.values())) for b in (built, default))
    assert len(results) == len(expected) == len(file.graph.output)
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, other)
    np.testing.assert_array_equal(results[0], oracle(file, inputs))
    gathers = {n.name or n.output[0] for n in file.graph.node if n.op_type == "Gather"}
    for wrong in outside:
        damaged = {**inputs, "e": inputs["e"].copy()}
        damaged["e"].flat[0] = wrong
        messages = [str(_error(build, damaged)) for build in (built, default)]
        node, _, text = messages[0].partition(": ")
        assert text == "take at an element that is outside of its axis"
        assert messages[1] == messages[0] and node in gathers


def _all(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _error(build: Any, inputs: dict[str, Any]) -> ValueError:
    with pytest.raises(ValueError) as caught:
        build.run(*inputs.values())
    return caught.value


@needs_openvino
def test_an_index_that_is_rounded_is_refused(tmp_path: Path) -> None:
    file = _rows(op("Mul", ["e", "f"], "g"), op("Cast", ["g"], "i", to=I32), e=(F32, [2]),
                 f=(F32, [2]))  # fmt: skip
    with pytest.raises(FileRefused, match=r"openvino: an index .* node g, .* of floating"):
        in_openvino(file, tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_checks_that_cannot_run_before_the_file(name: str) -> None:
    module, reason = REFUSED[name]
    checks = _checks_of(module)
    assert isinstance(checks, str) and reason in checks


@I.ir_module
class Inside:
    @R.function
    def main(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.add(i, i), axis=0)
            R.output(y)
        return y


def test_no_pass_takes_the_copy_for_a_reshape_without_checks() -> None:
    """It would then drop the operand that the checks return, and the checks."""
    checks = _checks_of(Inside)
    assert isinstance(checks, BorderChecks)
    params = [relax.Var(p.name, p.ty) for p in Inside["main"].params]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            first, second = checks.emit(builder, params)
            assert second is params[1]  # the other one has fewer elements
            out = builder.emit_output(first)
        builder.emit_func_output(out)
    passes = [relax.transform.RewriteDataflowReshape(), relax.transform.DeadCodeElimination()]
    after = tvm.transform.Sequential(passes)(builder.get())
    values = [b.value for b in after["main"].body.blocks[0].bindings]
    called = [x.args[0] for x in values if isinstance(x, relax.Call)]
    assert [getattr(gvar, "name_hint", gvar) for gvar in called] == [
        "add",
        "checked_index",
        "copy_after",
    ]


def test_a_model_without_checks() -> None:
    @I.ir_module
    class Known:
        @R.function
        def main(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
            with R.dataflow():
                y = R.take(t, R.floor_mod(i, R.const(9, "int64")), axis=0)
                R.output(y)
            return y

    assert _checks_of(Known) == BorderChecks()
    assert _checks_of(NoInputs) == BorderChecks()  # they ran when constants were folded


def _checks_of(module: Any) -> BorderChecks | str:
    mod = checked_indices(module)
    shared = SharedWork(mod)
    return border_checks(read(shared.prepare([], relaid=False), "test", shared.proofs))


def test_large_is_more_than_few() -> None:
    assert FEW < 200 * 100
