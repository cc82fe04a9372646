"""Quantised models for backends that take subgraphs only: constants stay integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
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

from . import qdq
from .int8_cases import Q, dequantized

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
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype("float32")
        (expected,) = session.run(None, {"x": x})
        found = main(tvm.runtime.tensor(x)).numpy()
        assert np.abs(found - expected).max() <= 1.001 * qdq.STEP


def _product(after: Any = None) -> Any:
    """A product with constant integers; ``after`` makes the tensor that is multiplied by them."""
    weights = np.random.default_rng(0).integers(-127, 128, (6, 4)).astype("int8")
    x = relax.Var("x", relax.TensorType((3, 6), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            w = dequantized(bb.emit, Q("int8", 0.02, 0), relax.const(weights))
            out = bb.emit_output(after(bb.emit, x, w) if after else bb.emit(op.matmul(x, w)))
        bb.emit_func_output(out)
    return bb.get()


def _dequantised(mod: Any, backends: Sequence[str]) -> int:
    """How many constants are still integers after a module is prepared."""
    prepared = prepare(mod, backends)
    calls = [b.value for block in prepared["main"].body.blocks for b in block.bindings]
    return sum("dequantize" in str(c.args[0]) for c in calls if getattr(c, "args", ()))


@pytest.mark.parametrize(
    ("backends", "count"),
    [(["onnxruntime"], 1), (["onnxruntime", "openvino"], 1), (["onnxruntime", "blas"], 0), ([], 0)],
)
def test_chains_beside_subgraphs_get_constants_in_float(backends: list[str], count: int) -> None:
    assert _dequantised(_product(), backends) == count


def test_constants_of_an_operator_that_stays_with_tvm_are_folded() -> None:
    """The writer of ONNX has no cumulative product."""

    def stays(emit: Any, x: Any, w: Any) -> Any:
        return emit(op.matmul(x, emit(op.cumprod(w, 1))))

    assert _dequantised(_product(stays), ["onnxruntime"]) == 0


def test_a_result_that_is_a_constant_is_folded() -> None:
    assert _dequantised(_product(lambda e, x, w: e(relax.Tuple([x, w]))), ["onnxruntime"]) == 0
