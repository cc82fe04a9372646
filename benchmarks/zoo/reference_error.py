"""How far a reference itself can be trusted: moved weights, and a second runtime."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .differences import difference
from .models.subject import Subject, one_line
from .peers import onnx_runtime, openvino

#: Standard deviation of what weights are multiplied by, in roundings of their dtype.
ROUNDINGS = 2.5
#: Each seed moves the weights in another way: one may meet no near tie.
SEEDS = range(3)
#: Operators whose operands decide sizes, or for which inputs they are defined; these are not moved.
DECIDING = frozenset({"Clip", "OneHot", "Pad", "Pow", "Range", "Resize", "Upsample"})
DTYPES = {1: "float32", 10: "float16", 11: "float64"}


def spread(model: Subject) -> tuple[float, str]:
    """Return how far ONNX Runtime's outputs move with its weights, and why that is unknown.

    The difference is the largest over all inputs and `SEEDS`, between the model unchanged and with
    weights that are moved by a few roundings.
    """
    import onnx

    proto = onnx.load(model.path)
    folder = Path(tempfile.mkdtemp(dir=model.path.parent))
    try:
        expected = _outputs(model.path, model)
        largest = 0.0
        for seed in SEEDS:
            onnx.save(moved(proto, seed), folder / "moved.onnx")
            got = _outputs(folder / "moved.onnx", model)
            largest = max([largest, *map(difference, expected, got)])
    except runtime_errors() as error:
        return 0.0, f"spread: {one_line(error)}"
    finally:
        shutil.rmtree(folder)
    return largest, ""


def _outputs(path: Path, model: Subject) -> list[list[Any]]:
    return [onnx_runtime(path, inputs, 1, exact=True)() for inputs in model.inputs]


def second(model: Subject) -> tuple[list[list[Any]], str]:
    """Return OpenVINO's outputs for each set of inputs, and why there are none."""
    outputs = []
    for inputs in model.inputs:
        try:
            result = openvino(model.path, inputs, 1)()
        except RuntimeError as error:
            return [], f"second runtime: {one_line(error)}"
        outputs.append([np.asarray(a) for a in result.values()])
    return outputs, ""


def moved(proto: Any, seed: int) -> Any:
    """Return a copy of an `onnx.ModelProto` whose weights are moved by a few roundings."""
    import onnx

    copy, random = onnx.ModelProto(), np.random.default_rng(seed)
    copy.CopyFrom(proto)
    graphs = list(_graphs([copy.graph, *copy.functions]))
    nodes = [node for graph in graphs for node in graph.node]
    kept = {name for node in nodes if node.op_type in DECIDING for name in node.input}
    for graph in graphs:
        for tensor in getattr(graph, "initializer", ()):
            if tensor.name not in kept:
                _move(tensor, random)
    for node in nodes:
        if node.op_type == "Constant" and node.output[0] not in kept:
            for attribute in node.attribute:
                _move(attribute.t, random)
    return copy


def _graphs(graphs: list[Any]) -> Iterator[Any]:
    """Yield graphs and those in the attributes of their nodes."""
    for graph in graphs:
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                inner = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
                yield from _graphs(inner)


def _move(tensor: Any, random: np.random.Generator) -> None:
    from onnx import numpy_helper

    dtype = DTYPES.get(tensor.data_type)
    if dtype is None:
        return
    values = numpy_helper.to_array(tensor).astype("float64")
    factor = ROUNDINGS * float(np.finfo(dtype).eps)
    values = values * (1 + factor * random.standard_normal(values.shape))
    # Masks are often the least number, which is to stay finite.
    most = float(np.finfo(dtype).max)
    values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(values, dtype), tensor.name))


def runtime_errors() -> tuple[type[Exception], ...]:
    """Return the errors that ONNX Runtime raises; they have no common base."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented",
             "RuntimeException")  # fmt: skip
    return tuple(getattr(state, name) for name in names)
