"""Regions as ONNX models: every operator that can be written computes what TVM computes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from opinfo.byoc.backend.region import Tensor
from opinfo.byoc.backends.onnx_models.model import OPSET, model
from opinfo.byoc.backends.onnx_operators.graph.graph_writer import GraphWriter
from opinfo.byoc.backends.onnx_operators.onnx_writers import OPERATORS
from opinfo.byoc.backends.onnx_operators.spatial.image_resize import factor
from opinfo.byoc.backends.openvino import WITHOUT
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .cases.onnx_case import (
    HALF,
    INFINITIES,
    QUOTIENT,
    REMAINDER,
    ROUNDED,
    SUMS,
    TURNED,
    WIDE,
    OnnxCase,
)
from .onnx_cases import CASES, module, recording, values

nn, op = relax.op.nn, relax.op

BACKENDS = ("onnxruntime", "openvino")
#: Spatial ranks whose operators are written as those of other ranks.
ALIKE = {f"relax.nn.{kind}" for kind in (
    "conv3d_transpose", "max_pool1d", "max_pool3d", "avg_pool1d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool3d")}  # fmt: skip
#: What prepare or the recognisers turn into others.
ELSEWHERE = {"relax.flatten", "relax.nn.attention_bias"}


def cases_of(backend: str) -> dict[str, OnnxCase]:
    return {n: c for n, c in CASES.items() if backend == "onnxruntime" or not c.refused}


@functools.cache
def compiled(backend: str) -> CompiledModule:
    return compile_module(module(cases_of(backend)), [backend], plan=False)


@functools.cache
def expected() -> dict[str, Any]:
    return dict(zip(CASES, run(module(CASES), values(CASES)), strict=True))


@functools.cache
def results(backend: str) -> dict[str, Any]:
    cases = cases_of(backend)
    tensors = map(tvm.runtime.tensor, values(cases))
    return dict(zip(cases, compiled(backend).machine()["main"](*tensors), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_operator_is_taken_and_every_writer_tried(backend: str) -> None:
    done = compiled(backend).dispatched
    assert [(o.op, o.why) for o in done.left] == []
    assert [str(f) for f in done.failed] == []
    tried = {o for t in done.taken for o in t.ops}
    untried = set(OPERATORS) - tried - ALIKE - ELSEWHERE - {"hard_swish"}  # merged in regions
    assert untried == ({*WITHOUT, "relax.mod", "relax.min"} if backend == "openvino" else set())


@pytest.mark.parametrize(
    ("backend", "name"), [(b, n) for b in BACKENDS for n in cases_of(b)]
)  # fmt: skip
def test_the_result_is_that_of_tvm(backend: str, name: str) -> None:
    found, wanted = results(backend)[name].numpy(), expected()[name]
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    near = 4e-3 if found.dtype == "float16" else 2e-5
    np.testing.assert_allclose(found, wanted, rtol=10 * near, atol=near)


@pytest.mark.parametrize(
    "reason", [HALF, INFINITIES, QUOTIENT, REMAINDER, ROUNDED, SUMS, TURNED, WIDE]
)
def test_what_openvino_computes_otherwise_stays_with_tvm(reason: str) -> None:
    refused = {n: c for n, c in CASES.items() if c.refused == reason}
    done = dispatch(prepare(module(refused)), ["openvino"])
    assert {o.why for o in done.left} == {f"openvino, pattern network: {reason}"}


def test_the_nodes_are_those_that_runtimes_fuse() -> None:
    """A bias belongs to its convolution, a clipped line is a hard sigmoid; nothing else is left."""
    expected = {
        "conv2d_transpose, bias": ["ConvTranspose"],
        "hard sigmoid": ["HardSigmoid"],
        "hard swish": ["Neg", "HardSwish"],
        "steep hard swish": ["Neg", "HardSigmoid", "Mul"],
        "bounds": ["Clip"],
        "affine by channel": ["BatchNormalization"],
        "take, from the end": ["Sub", "Gather"],
        "maximum of a stack": ["Max"],
        "choice by a constant": ["Exp"],
        "split": ["Slice", "Slice", "Sub"],
        "square": ["Pow"],
        "mean of an image": ["GlobalAveragePool", "Reshape"],
    }
    backend, regions = recording()
    dispatch(prepare(module({n: CASES[n] for n in expected}), [backend]), [backend])
    written = [
        [n.op_type for n in onnx.load_from_string(model(r).tobytes()).graph.node] for r in regions
    ]
    assert sorted(written) == sorted(expected.values())


def test_a_bias_that_others_read_too_stays_a_sum() -> None:
    def build(e: Any, r: Any, x: Any) -> Any:
        y = e(nn.conv2d(x, const(r, 4, 4, 1, 1)))
        return e(relax.Tuple([e(op.add(y, const(r, 1, 4, 1, 1))), e(op.exp(y))]))

    backend, regions = recording()
    dispatch(nets.net(build, (1, 4, 5, 5)), [backend])
    (region,) = regions
    nodes = [n.op_type for n in onnx.load_from_string(model(region).tobytes()).graph.node]
    assert nodes == ["Conv", "Add", "Exp"]


def test_an_extent_is_computed_from_the_shapes_of_tensors() -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    writer = GraphWriter()
    writer.tensors["x0"] = Tensor("input", 0, (n, m, 6), "float32")
    extents = [n, m * 2, (n + m - 3) // 4, n % 5, 7]
    names = [writer.vector([e]) for e in extents]
    nodes, arrays = writer.finish(names)
    graph = helper.make_graph(
        [helper.make_node(k.op, list(k.inputs), [k.output], **k.attrs) for k in nodes], "extents",
        [helper.make_tensor_value_info("x0", 1, [None, None, 6])],
        [helper.make_tensor_value_info(f"y{k}", 7, [1]) for k in range(len(names))],
        [numpy_helper.from_array(a, k) for k, a in arrays.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    found = ReferenceEvaluator(made).run(None, {"x0": np.zeros((8, 13, 6), "float32")})
    assert [int(v[0]) for v in found] == [8, 26, 4, 3, 7]
    with pytest.raises(ValueError, match="no tensor has the extent"):
        writer.vector([tvm.tirx.Var("k", "int64")])


def test_the_factor_of_extents_with_symbols_is_proved() -> None:
    n = tvm.tirx.Var("n", "int64")
    assert [factor(4, 8), factor(4, 9), factor(n, 2 * n), factor(n, n * 3), factor(n, n + 4)] == [
        2, None, 2, 3, None,
    ]  # fmt: skip
