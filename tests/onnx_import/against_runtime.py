"""Compare an imported graph with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array

#: The sizes of an input, numbers or names, and its dtype.
Inputs = Mapping[str, tuple[Sequence[Any], str]]


def contributed(op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> Any:
    """Return a node of an operator that ONNX Runtime adds to ONNX."""
    from onnx import helper

    return helper.make_node(op, inputs, outputs, domain="com.microsoft", **attrs)


def model(
    nodes: Sequence[Any],
    inputs: Inputs,
    outputs: Sequence[str] = ("y",),
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    functions: Sequence[Any] = (),
) -> Any:
    """Return a model of nodes; inputs have sizes and a dtype."""
    from onnx import helper, numpy_helper

    def info(name: str) -> Any:
        sizes, dtype = inputs[name]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, sizes)

    graph = helper.make_graph(
        list(nodes), "net", [info(name) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1),
              helper.make_opsetid("here", 1)]  # fmt: skip
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def compare(proto: Any, *feeds: Mapping[str, Array], tolerance: float = 1e-5) -> tvm.IRModule:
    """Import, compile once, and compare all outputs for each set of inputs; return the module."""
    session = session_of(proto)
    mod = from_model(proto, {})
    machine = relax.VirtualMachine(unoptimised(legalise_module(mod)), tvm.cpu())
    assert feeds
    for feed in feeds:
        expected = session.run(None, dict(feed))
        args = [tvm.runtime.tensor(np.require(feed[i.name], requirements="C"))
                for i in proto.graph.input]  # fmt: skip
        result = machine["main"](*args)
        got = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        for a, b in zip(got, expected, strict=True):
            assert (a.numpy().shape, a.numpy().dtype) == (b.shape, b.dtype)
            largest = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind == "f" else 0
            np.testing.assert_allclose(a.numpy(), b, rtol=0, atol=tolerance * max(largest, 1e-6))
    return mod


def reference(proto: Any, feed: Mapping[str, Array]) -> list[Array]:
    """Return the outputs that ONNX Runtime computes."""
    results: list[Array] = session_of(proto).run(None, dict(feed))
    return results


def outputs(proto: Any, *feeds: Mapping[str, Array]) -> list[Array]:
    """Import, compile once, call a model, and return the outputs of all calls in one list."""
    machine = relax.VirtualMachine(unoptimised(legalise_module(from_model(proto, {}))), tvm.cpu())
    results = []
    for feed in feeds:
        args = [tvm.runtime.tensor(np.require(feed[i.name], requirements="C"))
                for i in proto.graph.input]  # fmt: skip
        result = machine["main"](*args)
        results += [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [x.numpy() for x in results]


def session_of(proto: Any) -> Any:
    """Return a session whose products of bytes with constants are exact.

    Without VNNI, ONNX Runtime adds pairs of them in 16 bits, which saturate, unless told otherwise.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def floats(*shape: int, seed: int = 0) -> Array:
    """Return random numbers from -1 to 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")
