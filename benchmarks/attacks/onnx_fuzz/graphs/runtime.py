"""ONNX Runtime without optimisations: what a node or a model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: The version of the file format, old enough for every runtime here.
IR_VERSION = 10


def entry(name: str, array: Array, shape: Sequence[Any] | None = None) -> Any:
    """Return the declaration of a tensor with an array's dtype, and its shape by default."""
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def typed(name: str, array: Array) -> Any:
    """Return the declaration of a tensor with an array's dtype and rank, and no sizes."""
    return entry(name, array, [None] * array.ndim)


def wrapped(nodes: Sequence[Any], feeds: Mapping[str, Array], opset: int) -> Any:
    """Return a model of nodes whose results are all outputs."""
    from onnx import helper

    names = [name for node in nodes for name in node.output if name]
    graph = helper.make_graph(
        list(nodes), "nodes", [entry(name, array) for name, array in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in names],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def is_node(node: Any, opset: int) -> bool:
    """Return whether the operator set has the operator, with the node's attributes."""
    from onnx import checker

    if any(a.HasField("g") for a in node.attribute):
        return True  # branches read values that the checker would have to know
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = IR_VERSION, {"": opset}
    try:
        checker.check_node(node, context)
    except checker.ValidationError:
        return False
    return True


def session(model: Any) -> Any:
    """Return a session of one thread; raises what ONNX Runtime raises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])  # fmt: skip


def run(model: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a model by name."""
    opened = session(model)
    names = [output.name for output in opened.get_outputs()]
    own = {i.name: feeds[i.name] for i in opened.get_inputs()}
    return dict(zip(names, opened.run(names, own), strict=True))


def all_values(model: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return every value that the nodes of the main graph compute, by name."""
    import onnx
    from onnx import helper

    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return run(whole, feeds)
