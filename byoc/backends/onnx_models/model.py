"""Regions as ONNX files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ....analysis.proposal.proposal import Constant
from ...backend.region import Array, Region, Tensor
from ..onnx_integers.with_integers import with_integers
from ..onnx_operators.graph.element_types import ELEMENT_TYPES
from ..onnx_operators.graph.graph_writer import GraphWriter
from ..onnx_operators.onnx_writers import OPERATORS
from .weights import LARGE, with_weights

#: The opset and the version of the file format: ONNX Runtime 1.17 supports both.
OPSET, IR_VERSION = 20, 9


def model(region: Region, integers: bool = False) -> Array:
    """The region as an ONNX file of dtype uint8; inputs are ``x<k>``, results ``y<k>``.

    Args:
        region: The region.
        integers: Write integer arithmetic with ONNX's own operators, as `with_integers` says.

    Raises:
        ValueError: The file would exceed 2 GiB.
    """
    from onnx import GraphProto, helper, numpy_helper

    writer = GraphWriter()
    results = _write(writer, region)
    if integers:
        results = with_integers(writer, results)
    nodes, arrays = writer.finish(results)
    weights = {name: array for name, array in arrays.items() if array.nbytes >= LARGE}
    symbols: list[Any] = []
    graph = helper.make_graph(
        [
            helper.make_node(n.op, list(n.inputs), list(n.outputs), domain=n.domain, **n.attrs)
            for n in nodes
        ],
        region.symbol,
        [_value(f"x{k}", t, symbols) for k, t in enumerate(region.inputs)],
        [_value(f"y{k}", t, symbols) for k, t in enumerate(region.results)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()
         if name not in weights],
    )  # fmt: skip
    domains = sorted({n.domain for n in nodes} - {""})
    opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in domains)]
    frame = helper.make_model(GraphProto(), opset_imports=opsets, ir_version=IR_VERSION)
    frame.ClearField("graph")
    return with_weights(frame, graph, weights)


def _write(writer: GraphWriter, region: Region) -> list[str]:
    """Write all calls; returns the names of the region's results."""
    inputs = [f"x{k}" for k in range(len(region.inputs))]
    constants = [writer.constant(a) for a in region.constants]
    made: list[list[str]] = []
    places = {"input": inputs, "constant": constants}

    def name(operand: Tensor | Constant) -> str:
        if isinstance(operand, Constant):
            return writer.scalar(operand.value, operand.dtype)
        if operand.source == "call":
            return made[operand.index][operand.result]
        return places[operand.source][operand.index]

    readers = _readers(region)
    writer.tensors.update(zip(inputs, region.inputs, strict=True))
    for k, call in enumerate(region.calls):
        outputs = OPERATORS[call.op].write(writer, call, [name(o) for o in call.operands])
        made.append([outputs] if isinstance(outputs, str) else list(outputs))
        for output, result in zip(made[-1], call.results, strict=False):
            writer.tensors[output] = result
            writer.readers[output] = readers[k, result.result]
    return [name(t) for t in region.results]


def _readers(region: Region) -> Counter[tuple[int, int]]:
    """How many operands and results of the region each result of a call is."""
    out: Counter[tuple[int, int]] = Counter()
    operands: Sequence[Any] = [o for c in region.calls for o in c.operands]
    for tensor in (*operands, *region.results):
        if isinstance(tensor, Tensor) and tensor.source == "call":
            out[tensor.index, tensor.result] += 1
    return out


def _value(name: str, tensor: Tensor, symbols: list[Any]) -> Any:
    """The declaration of an input or result; the extents of one symbol have one name."""
    from onnx import helper

    extents = [e if isinstance(e, int) else _symbol(e, symbols) for e in tensor.shape]
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[tensor.dtype], extents)


def _symbol(extent: Any, symbols: list[Any]) -> str | None:
    """The name of a variable; None for other expressions, which the runtime infers."""
    if not isinstance(extent, tirx.Var):
        return None
    number = next((k for k, s in enumerate(symbols) if s.same_as(extent)), len(symbols))
    if number == len(symbols):
        symbols.append(extent)
    return f"n{number}"
