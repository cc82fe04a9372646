"""The message of an ONNX file with its external weights, and the digest of both."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..checks.error import FrontendError, one_line, shortened
from ..reading.limits import allow

#: Bytes of the largest file, by protobuf's format; larger weights are in files of their own.
LARGEST = 2**31 - 1
#: Bytes of the longest name of a file that systems have.
LONGEST_NAME = 255
#: Bytes of the largest type of elements.
MOST_BYTES = 16


def read_proto(path: Path) -> tuple[Any, str]:
    """Return the `onnx.ModelProto` of a file, and a digest of all that was read.

    Raises:
        FrontendError: It is not an ONNX model, or `onnx` is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .onnx needs onnx: pip install 'opinfo[onnx]'"
        ) from error
    if (size := path.stat().st_size) > LARGEST:
        raise FrontendError(f"{path}: not an ONNX model: it has {size} bytes, expected under 2 GiB")
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content)
        model = onnx.load_model_from_string(content)
        del content
        elsewhere = [t for t in all_tensors(model) if t.data_location == t.EXTERNAL]
        missing = _missing(model, path.parent)
        if not missing:
            allow(_external_size(model, path.parent))
            onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # protobuf and onnx raise various types
        raise FrontendError(f"{path}: not an ONNX model: {one_line(error)}") from error
    if missing:
        raise FrontendError(f"{path}: {missing}")
    for tensor in elsewhere:
        digest.update(b"%d," % len(tensor.raw_data))
        digest.update(tensor.raw_data)
    if not model.graph.node:
        raise FrontendError(f"{path}: not an ONNX model: its graph is empty")
    return model, digest.hexdigest()


def all_tensors(model: Any) -> Iterator[Any]:
    """Yield the tensors of a model, also those of attributes, branches and functions."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)
        yield from _of_attributes(function.attribute_proto)


def _of_graph(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Any) -> Iterator[Any]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        sparse_ = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        for sparse in (*sparse_, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in inner_graphs(attribute):
            yield from _of_graph(graph)


def inner_graphs(attribute: Any) -> list[Any]:
    """Return the graphs of an attribute: branches, and bodies of loops."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _missing(model: Any, folder: Path) -> str:
    """Say which file of weights is not there; empty if none is missing."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    for tensor in filter(uses_external_data, model.graph.initializer):
        place = str(ExternalDataInfo(tensor).location)
        where = f"the weights of {shortened(tensor.name, 80)!r} are in {shortened(place, 80)!r}, "
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(place).parts):
            return (f"{where}a name of {len(place)} characters, expected at most {LONGEST_NAME}; "
                    "rename the file, and set its name as the location")  # fmt: skip
        if place and not (folder / place).exists():
            return f"{where}which does not exist; copy it beside the model"
    return ""


def _external_size(model: Any, folder: Path) -> int:
    """Return the bytes of the external weights that a model names and that its folder has."""
    from onnx.external_data_helper import ExternalDataInfo, uses_external_data

    total = 0
    for tensor in model.graph.initializer:
        if not uses_external_data(tensor):
            continue
        place = folder / ExternalDataInfo(tensor).location
        if place.is_file() and place.resolve().is_relative_to(folder.resolve()):
            content = place.stat()
            stored = min(content.st_size, content.st_blocks * 512)  # a file may have holes
            total += min(stored, max(0, math.prod(tensor.dims)) * MOST_BYTES)
    return total
