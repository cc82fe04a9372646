"""An ONNX file for runtimes: complete, with static shapes, and with nothing but the graph.

Before: external weights; input x of shape (batch, 3, 224, 224); the weight w, also an input
After:  all weights inside; input x of shape (1, 3, 224, 224); the weight w, a constant

Nodes, names and attributes stay as the author wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...analysis.support.protobuf import header
from ..checks.error import FrontendError, shortened
from ..onnx_checks.onnx_schema import STANDARD
from ..onnx_functions import functions
from ..onnx_functions.contributed_functions import BODIES
from ..onnx_graph.conversion.converter_table import MICROSOFT
from ..onnx_graph.conversion.tvm_converters import CONTRIBUTED
from ..onnx_operators import CONVERTERS
from .onnx_proto import LARGEST, all_tensors, inner_graphs, read_proto

#: The first version of the format in which a weight that is also an input may be overridden.
OVERRIDABLE = 4
#: The number of ``ModelProto.graph``.
_GRAPH = 7


def static_file(path: Path, digest: str, extents: Sequence[Sequence[int]]) -> list[bytes]:
    """Return an ONNX file with static shapes in parts, after a line with its inputs and outputs.

    Args:
        path: The author's file.
        digest: The digest that it had when it was loaded.
        extents: The shapes of its inputs, in order.

    Raises:
        FrontendError: The file has changed, or runtimes cannot get it; the message says why.
    """
    import onnx

    model, now = read_proto(path)
    if now != digest:
        raise FrontendError("the file has changed since it was loaded")
    if any(tensor.data_location == tensor.EXTERNAL for tensor in all_tensors(model)):
        raise FrontendError("a tensor outside of its weights is in another file")
    _check_operators(model)
    _fix(model.graph, model.ir_version, extents)
    names = [[v.name for v in values] for values in (_inputs(model.graph), model.graph.output)]
    if any("\0" in name for name in (*names[0], *names[1])):
        raise FrontendError("the name of an input or output contains a zero byte")
    # Metadata may configure a runtime, and the producer's name may look like another format.
    # OpenVINO only takes a file for ONNX whose first three fields differ: several opsets come last.
    version = onnx.ModelProto(ir_version=model.ir_version).SerializeToString()
    rest = onnx.ModelProto(opset_import=model.opset_import, functions=model.functions)
    graph = model.graph.SerializeToString()
    parts = [version, header(_GRAPH, len(graph)), graph, rest.SerializeToString()]
    if (size := sum(map(len, parts))) > LARGEST:
        raise FrontendError(f"with its weights it has {size} bytes, expected under 2 GiB")
    return [json.dumps(names).encode() + b"\n", *parts]


def _inputs(graph: Any) -> list[Any]:
    """Return the inputs that are not weights."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _fix(graph: Any, version: int, extents: Sequence[Sequence[int]]) -> None:
    """Make the shapes of inputs static, and weights constants."""
    inputs = _inputs(graph)
    if len(inputs) != len(extents):
        raise FrontendError(f"it has {len(inputs)} inputs, the module {len(extents)}")
    for value, sizes in zip(inputs, extents, strict=True):
        shape = value.type.tensor_type.shape
        name = shortened(value.name, 80)
        if value.type.tensor_type.HasField("shape") and len(shape.dim) != len(sizes):
            raise FrontendError(f"the input '{name}' has {len(shape.dim)} dimensions in the file")
        for dim, size in zip(shape.dim, sizes, strict=False):
            if dim.dim_value > 0 and dim.dim_value != size:
                raise FrontendError(f"the input '{name}' has other static sizes in the file")
        del shape.dim[:]
        value.type.tensor_type.shape.SetInParent()  # of a scalar
        for size in sizes:
            shape.dim.add(dim_value=size)
    if version >= OVERRIDABLE:
        weights = {tensor.name for tensor in graph.initializer}
        for k in reversed(range(len(graph.input))):
            if graph.input[k].name in weights:
                del graph.input[k]


def _check_operators(model: Any) -> None:
    """Raise `FrontendError` for operators that no import of this model could have converted.

    What the importer skipped, such as a branch that is never taken, reaches the runtime too.
    """
    local_functions = functions.local(model)
    for node in _with_inner([*model.graph.node, *(n for f in model.functions for n in f.node)]):
        key = node.domain, node.op_type
        contributed = node.domain == MICROSOFT and node.op_type in {*CONTRIBUTED, *BODIES}
        if node.domain not in STANDARD and key not in local_functions and key not in CONVERTERS:
            if not contributed:
                name = shortened(f"{node.domain}.{node.op_type}", 80)
                raise FrontendError(f"opinfo does not convert the operator {name}")


def _with_inner(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in inner_graphs(attribute):
                yield from _with_inner(graph.node)
