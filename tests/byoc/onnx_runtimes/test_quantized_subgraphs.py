"""Quantised models for backends that take subgraphs only: constants stay integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.backend import Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Region
from opinfo.byoc.backends.onnx_models.model import model
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.frontend.formats.from_onnx import from_model

from ...onnx_import.against_runtime import session_of
from . import qdq

NETS = {"mobile": qdq.mobile, "residual": qdq.residual}
RUNTIMES = ("onnxruntime", "openvino")
op = relax.op


def _written(mod: Any, name: str) -> list[Any]:
    """The graphs that a runtime would get."""
    graphs: list[Any] = []

    def convert(regions: Sequence[Region]) -> Code:
        graphs.extend(onnx.load_from_string(model(r).tobytes()).graph for r in regions)
        return Code("", tuple(r.symbol for r in regions))

    backend = replace(find(name), convert=convert)
    dispatch(prepare(mod, [backend]), [backend])
    return graphs


def _stored(graph: Any) -> list[str]:
    """The dtypes of constants that a graph dequantises, in order of their names."""
    known = {i.name: i.data_type for i in graph.initializer}
    found = [known[n.input[0]] for n in graph.node
             if n.op_type == "DequantizeLinear" and n.input[0] in known]  # fmt: skip
    return [onnx.TensorProto.DataType.Name(t) for t in found]


@pytest.mark.part
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("net", NETS)
def test_weights_of_whole_nets_are_written_as_integers(net: str, runtime: str) -> None:
    proto = NETS[net]()
    (graph,) = _written(from_model(proto, {}), runtime)
    count = Counter(n.op_type for n in proto.graph.node)
    assert _stored(graph) == ["INT8"] * (count["Conv"] + count["Gemm"])


def test_onnx_runtime_computes_what_it_computes_on_the_file() -> None:
    proto = qdq.mobile()
    main = compile_module(from_model(proto, {}), ["onnxruntime"]).machine()["main"]
    session = session_of(proto)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype("float32")
        (expected,) = session.run(None, {"x": x})
        found = main(tvm.runtime.tensor(x)).numpy()
        assert np.abs(found - expected).max() <= 1.001 * qdq.STEP


def _product(after: Any = None, axis: int | None = None, small: bool = True) -> Any:
    """A product with constant integers; ``after`` makes what is done with them.

    ``axis``: that of the constant's scales. ``small``: the other factor is quantised, too.
    """
    weights = np.random.default_rng(0).integers(-127, 128, (6, 4)).astype("int8")
    x = relax.Var("x", relax.TensorType((3, 6), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            scales = 0.02 if axis is None else np.full(weights.shape[axis], 0.02, "float32")
            zeros = 0 if axis is None else np.zeros(weights.shape[axis], "int8")
            given = relax.const(scales, "float32"), relax.const(zeros, "int8")
            w = bb.emit(op.dequantize(relax.const(weights), *given, -1 if axis is None else axis))
            y: Any = x
            if small:
                scale, zero = relax.const(0.1, "float32"), relax.const(0, "int8")
                y = bb.emit(op.quantize(x, scale, zero, -1, "int8"))
                y = bb.emit(op.dequantize(y, scale, zero, -1, "float32"))
            out = bb.emit_output(after(bb.emit, y, w) if after else bb.emit(op.matmul(y, w)))
        bb.emit_func_output(out)
    return bb.get()


def _dequantized(mod: Any, backends: Sequence[str]) -> int:
    """How many constants are still integers after a module is prepared."""
    prepared = prepare(mod, backends)
    calls = [b.value for block in prepared["main"].body.blocks for b in block.bindings]
    of_constants = [c for c in calls if getattr(c, "args", ()) and "dequantize" in str(c.args[0])]
    return sum(not isinstance(c.args[1].fields[0], relax.Var) for c in of_constants)


@pytest.mark.parametrize(
    ("backends", "count"),
    [(["onnxruntime"], 1), (["onnxruntime", "openvino"], 1), (["onnxruntime", "blas"], 0), ([], 0)],
)
def test_chains_beside_subgraphs_get_constants_in_float(backends: list[str], count: int) -> None:
    assert _dequantized(_product(), backends) == count


@pytest.mark.parametrize(
    ("axis", "small", "count"),
    [(1, True, 1), (0, True, 0), (1, False, 0), (None, False, 0)],
)
def test_constants_that_runtimes_round_are_folded(
    axis: int | None, small: bool, count: int
) -> None:
    """A factor that is not quantised, and scales along the axis that is summed."""
    assert _dequantized(_product(axis=axis, small=small), ["onnxruntime"]) == count


def test_constants_of_an_operator_that_stays_with_tvm_are_folded() -> None:
    """The writer of ONNX has no cumulative product."""

    def stays(emit: Any, x: Any, w: Any) -> Any:
        return emit(op.matmul(x, emit(op.cumprod(w, 1))))

    assert _dequantized(_product(stays), ["onnxruntime"]) == 0


def test_a_result_that_is_a_constant_is_folded() -> None:
    assert _dequantized(_product(lambda e, x, w: e(relax.Tuple([x, w]))), ["onnxruntime"]) == 0
