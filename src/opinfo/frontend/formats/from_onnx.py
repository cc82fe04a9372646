"""Import ONNX files with TVM, after onnxslim has folded shape arithmetic if necessary."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from pathlib import Path
from typing import Any

import tvm

from ..checks.error import FrontendError, one_line
from ..checks.input_shapes import Shapes, check_shapes, filled
from ..checks.limits import allow
from .importer import at_node, tidied
from .origins import named, of_onnx, recording


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file with the requested input shapes; raises `FrontendError`.

    Without `shapes`, dynamic dimensions stay symbolic. If TVM's importer cannot handle that, the
    error names the inputs to make static.
    """
    try:
        import onnx
    except ImportError as error:
        raise FrontendError(
            f"{path}: reading .onnx needs onnx: pip install 'opinfo[onnx]'"
        ) from error
    try:
        model = onnx.load(path, load_external_data=False)
        allow(_external_size(model, path.parent))
        onnx.load_external_data_for_model(model, str(path.parent))
    except Exception as error:  # protobuf and onnx raise various types
        raise FrontendError(f"{path}: not an ONNX model: {one_line(error)}") from error
    if not model.graph.node:
        raise FrontendError(f"{path}: not an ONNX model: its graph is empty")
    return from_model(model, shapes, str(path))


def _external_size(model: Any, folder: Path) -> int:
    """Return the total size of the files with a model's external weights."""
    entries = (e for tensor in model.graph.initializer for e in tensor.external_data)
    files = {folder / e.value for e in entries if e.key == "location"}
    return sum(file.stat().st_size for file in files if file.is_file())


def from_model(model: Any, shapes: Shapes, where: str = "model") -> tvm.IRModule:
    """Import an `onnx.ModelProto`; raises `FrontendError` that names `where`."""
    inputs = input_shapes(model)
    check_shapes(shapes, inputs, symbolic=True)
    shapes = filled(shapes, inputs)
    try:
        return _imported(model, shapes)
    except Exception as error:  # the importer raises various types
        loose = _loose(inputs, shapes)
        hint = (
            f"; give dynamic inputs sizes in place of ?: --shape {loose}" if loose else _missing()
        )
        text = f"{where}: TVM's importer rejected it{at_node(error)}: {one_line(error)}{hint}"
        raise FrontendError(text) from error


def input_shapes(model: Any) -> dict[str, tuple[int | str, ...] | None]:
    """Return the shapes of inputs that are not weights; an unknown dimension is "?"."""
    weights = {tensor.name for tensor in model.graph.initializer}
    shapes: dict[str, tuple[int | str, ...] | None] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
        shapes[value.name] = dims
    return shapes


def _dim(dim: Any) -> int | str:
    return int(dim.dim_value) if dim.dim_value > 0 else str(dim.dim_param or "?")


def _loose(inputs: dict[str, tuple[int | str, ...] | None], shapes: Shapes) -> str:
    """Format inputs that are still dynamic as `x:?,3,?,?`."""
    texts = []
    for name, dims in {**inputs, **shapes}.items():
        if dims is None or any(isinstance(d, str) for d in dims):
            texts.append(
                f"{name}:" + ",".join("?" if isinstance(d, str) else str(d) for d in dims or "?")
            )
    return " --shape ".join(texts)


def _missing() -> str:
    """Say which missing packages prevented folding of shape arithmetic."""
    absent = [
        name for name in ("onnxslim", "onnxruntime") if importlib.util.find_spec(name) is None
    ]
    packages = " and ".join(absent)
    return f"; folding shapes needs {packages}: pip install 'opinfo[onnx]'" if absent else ""


def _imported(model: Any, shapes: Shapes) -> tvm.IRModule:
    """Import a model, folding first if it becomes static, else only if the import fails."""
    dynamic = bool(_loose(input_shapes(model), {}))
    if dynamic and shapes and not _loose({}, shapes):
        return _import(_folded(model, shapes), shapes)
    try:
        return _import(model, shapes)
    except Exception:  # the importer cannot fold all shape arithmetic of exporters
        folded = None
        with contextlib.suppress(Exception):  # onnxslim may raise anything
            folded = _folded(_declared(model, shapes), {})
        if folded is None or folded is model:
            raise
    return _import(folded, shapes)


def _declared(model: Any, shapes: Shapes) -> Any:
    """Return a copy whose inputs have the requested shapes; symbols stay symbolic."""
    if not shapes:
        return model
    copy = type(model)()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        dims = shapes.get(value.name)
        if dims is None:
            continue
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for dim in dims:
            shape.dim.add(**({"dim_param": dim} if isinstance(dim, str) else {"dim_value": dim}))
    return copy


def _folded(model: Any, shapes: Shapes) -> Any:
    """Fold the shape arithmetic of a model; returns the model itself without onnxslim."""
    try:
        import onnxslim
    except ImportError:
        return model
    texts = [f"{name}:" + ",".join(map(str, dims)) for name, dims in shapes.items()]
    with contextlib.redirect_stdout(io.StringIO()):
        return onnxslim.slim(model, input_shapes=texts or None)


def _import(model: Any, shapes: Shapes) -> tvm.IRModule:
    from tvm.relax.frontend.onnx import from_onnx
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

    symbols = {d for dims in shapes.values() for d in dims if isinstance(d, str)}
    variables = {name: tvm.tirx.Var(name, "int64") for name in symbols}
    shape_dict = {
        name: [variables[d] if isinstance(d, str) else d for d in dims]
        for name, dims in shapes.items()
    }
    with tidied(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with recording(ONNXGraphImporter, "_construct_nodes", of_onnx) as names:
            mod = from_onnx(model, shape_dict=shape_dict or None, keep_params_in_input=False)
        return named(mod, names)
