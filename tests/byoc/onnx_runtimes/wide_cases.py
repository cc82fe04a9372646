"""Files with integers of 64 bits, built for OpenVINO, and ONNX Runtime as the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper

import opinfo
from opinfo.byoc.compile import SharedWork
from opinfo.front.compiled_model import Compiled
from opinfo.front.file_builds import FileBuilds
from opinfo.frontend.source_file import source_of
from opinfo.jit.arguments.checked_bounds import checked_bounds
from opinfo.jit.arguments.index_checks import checked_indices
from opinfo.jit.arguments.signature import Signature

from ...onnx_import.against_runtime import session_of

#: Numbers around the ends of 32 bits, and what they become if they wrap around.
EDGES = np.array([0, 1, -1, 5, -3, 2**31 - 1, 2**31, 2**32, 2**32 + 5, -(2**31), -(2**31) - 1,
                  -(2**32), 256, 2**40, 2**63 - 1, -(2**63)], "int64")  # fmt: skip
I64, F32, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
Shapes = Mapping[str, tuple[int, Sequence[int]]]


def op(name: str, inputs: Sequence[str], output: str, **attrs: Any) -> Any:
    return helper.make_node(name, list(inputs), [output], **attrs)


def model(
    nodes: Sequence[Any], inputs: Shapes, outputs: Shapes, constants: Mapping[str, Any]
) -> Any:
    """The file of a graph; inputs and outputs by name, with their types and shapes."""
    declared = [[helper.make_tensor_value_info(n, t, s) for n, (t, s) in each.items()]
                for each in (inputs, outputs)]  # fmt: skip
    initial = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(list(nodes), "g", *declared, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def in_openvino(file: Any, folder: Path) -> Compiled:
    return in_runtime(file, folder, "openvino")


def in_runtime(file: Any, folder: Path, name: str) -> Compiled:
    """The build of a file, as `opinfo.compile` makes it for its race."""
    path = folder / "model.onnx"
    onnx.save(file, path)
    mod = opinfo.load(path)
    source = source_of(mod)
    assert source is not None
    signatures = {"main": Signature.of(mod["main"], "main")}
    mod = checked_indices(mod)
    shared = SharedWork(mod, checked_bounds(mod, signatures))
    target = tvm.target.Target("llvm")
    return FileBuilds(source, mod, target, signatures, None, shared).build(name, False)


def oracle(file: Any, inputs: Mapping[str, Any]) -> Any:
    """The first result of ONNX Runtime, which has integers of 64 bits."""
    return session_of(file).run(None, dict(inputs))[0]
