"""ONNX Runtime's transpose optimiser, applied to convolutions that require NHWC.

It has no float32 CPU kernels in NHWC, so each Conv becomes an operator that the optimiser cannot
look into, between the two transposes that its layout transformation would insert:

    Before: y = Conv(x, w)
    After:  y = Transpose(Loop(1, Transpose(x)) { Transpose; Conv; Transpose })

The graph is optimised up to the extended level, then run. The remaining conversions are the
transposes outside the loops that move a value that is not constant.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

from benchmarks.common import nets
from benchmarks.common.full_models import by_tokens
from opinfo.layout.report.plan_report import Conversions

from .to_onnx import to_onnx

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def left_by_onnx_runtime(name: str) -> Conversions:
    """Return the conversions of activations that ONNX Runtime leaves in a model."""
    return transposes(optimised(bracketed(exported(name))), nets.inputs(name))


def exported(name: str) -> Any:
    """Export a model to ONNX, with its NHWC convolutions already inside loops."""
    if name in nets.BUILT:
        return to_onnx(nets.module(name), in_loop)
    import torch

    model, sample = nets.torch_model(name)
    if name in nets.TOKEN_MODELS:
        model, sample = by_tokens(model), {"tokens": sample["input_ids"]}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(model, (), str(path), kwargs=sample, dynamo=False, opset_version=18)
        return onnx.load(path)


def bracketed(model: Any) -> Any:
    """Put each two-dimensional Conv of a model into a loop in NHWC."""
    model = shape_inference.infer_shapes(model)
    graph = model.graph
    values = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
    shapes = {n: [d.dim_value for d in v.type.tensor_type.shape.dim] for n, v in values.items()}
    nodes: list[Any] = []
    for node in graph.node:
        if node.op_type != "Conv" or len(shapes[node.input[0]]) != 4:
            nodes.append(node)
            continue
        x, y = node.input[0], node.output[0]
        before, after = f"{y}_nhwc_in", f"{y}_nhwc_out"
        source, target = ([shapes[v][k] for k in NHWC] for v in (x, y))
        nodes += [
            helper.make_node("Transpose", [x], [before], perm=NHWC),
            in_loop(node, before, after, source, target),
            helper.make_node("Transpose", [after], [y], perm=NCHW),
        ]
        graph.value_info.append(helper.make_tensor_value_info(after, TensorProto.FLOAT, target))
    del graph.node[:]
    graph.node.extend(nodes)
    return with_loop_arguments(model)


def with_loop_arguments(model: Any) -> Any:
    model.graph.initializer.extend([
        helper.make_tensor("loop_once", TensorProto.INT64, [], [1]),
        helper.make_tensor("loop_yes", TensorProto.BOOL, [], [True]),
    ])  # fmt: skip
    return model


def in_loop(conv: Any, x: str, y: str, source: list[int], target: list[int]) -> Any:
    """Return an NHWC convolution as a loop of one iteration around an NCHW one."""
    inner = onnx.NodeProto()
    inner.CopyFrom(conv)
    inner.input[0], inner.output[0] = f"{y}_x", f"{y}_y"

    def info(end: str, shape: list[int], dtype: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(f"{y}_{end}", dtype, shape)

    body = helper.make_graph(
        [
            helper.make_node("Identity", [f"{y}_go"], [f"{y}_on"]),
            helper.make_node("Transpose", [f"{y}_in"], [f"{y}_x"], perm=NCHW),
            inner,
            helper.make_node("Transpose", [f"{y}_y"], [f"{y}_out"], perm=NHWC),
        ],
        "nhwc",
        [info("k", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("in", source)],
        [info("on", [], TensorProto.BOOL), info("out", target)],
    )
    return helper.make_node("Loop", ["loop_once", "loop_yes", x], [y], body=body)


def optimised(model: Any) -> Any:
    """Optimise a model with ONNX Runtime, but without packed layouts."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.log_severity_level = 3
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        _session(model, options)
        return onnx.load(options.optimized_model_filepath)


def transposes(model: Any, values: list[np.ndarray[Any, Any]]) -> Conversions:
    """Count the transposes of activations that move elements, by the shapes of a run."""
    import onnxruntime as ort

    nodes = list(_on_activations(model.graph))
    names = [o.name for o in model.graph.output]
    for node in nodes:
        for name in (node.input[0], node.output[0]):
            if name not in names and name not in {i.name for i in model.graph.input}:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = _session(model, options)
    feeds = dict(zip([i.name for i in session.get_inputs()], values, strict=True))
    outputs = [o.name for o in session.get_outputs()]
    arrays = {**feeds, **dict(zip(outputs, session.run(outputs, feeds), strict=True))}
    moved = [arrays[n.input[0]] for n in nodes if _moves(arrays[n.input[0]].shape, _order(n))]
    return Conversions(len(moved), sum(a.nbytes for a in moved))


def _session(model: Any, options: Any) -> Any:
    import onnxruntime as ort

    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _on_activations(graph: Any) -> Iterator[Any]:
    activations = {i.name for i in graph.input}
    for node in graph.node:
        if activations.isdisjoint(node.input):
            continue
        activations.update(node.output)
        if node.op_type == "Transpose":
            yield node


def _order(node: Any) -> list[int]:
    return list(next(a.ints for a in node.attribute if a.name == "perm"))


def _moves(shape: tuple[int, ...], order: list[int]) -> bool:
    """Return whether axes longer than 1 change places."""
    long = [k for k in order if shape[k] != 1]
    return long != sorted(long) and math.prod(shape) > 1
