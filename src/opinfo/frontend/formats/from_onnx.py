"""Load ONNX files."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from ..checks.error import FrontendError, one_line, shortened
from ..checks.input_shapes import KEPT, Shapes, check_shapes
from ..checks.notes import digested, noted
from ..onnx_checks.onnx_schema import check_model
from ..onnx_graph.symbols import input_shapes, parameters
from ..onnx_graph.values import NodeError
from ..sizes.checked_sizes import checked_sizes
from .importer import tidied
from .onnx_import import GraphImport, NeedsBranches
from .onnx_proto import read_proto
from .origins import named

#: A size that a hint proposes for a symbolic dimension.
EXAMPLE = 64


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file with the requested input shapes; raises `FrontendError`.

    Without `shapes`, dynamic dimensions stay symbolic. If a node needs one of them static, the
    error names the node and the option that makes it so.
    """
    model, digest = read_proto(path)
    return digested(from_model(model, shapes, str(path)), digest)


def from_model(model: Any, shapes: Shapes, where: str = "model") -> tvm.IRModule:
    """Import an `onnx.ModelProto`; raises `FrontendError` that names `where`."""
    try:
        check_model(model)
    except FrontendError as error:
        raise FrontendError(f"{where}: {error}") from error
    inputs = input_shapes(model)
    check_shapes(_without_kept(shapes, inputs), inputs, symbolic=True)
    params: dict[str, Any] = {}
    try:
        params = parameters(model, shapes)
        return _imported(model, params)
    except Exception as error:  # TVM raises various types
        dims = error.dims if isinstance(error, NodeError) else ()
        raise FrontendError(f"{where}: {one_line(error)}{_hint(params, dims)}") from error


def _without_kept(shapes: Shapes, inputs: dict[str, tuple[int | str, ...] | None]) -> Shapes:
    """Return requested shapes with the sizes in the file where they are kept."""
    return {
        name: tuple(
            own[k] if size in (KEPT, None) and (own := inputs.get(name)) and k < len(own) else size
            for k, size in enumerate(shape)
        )
        for name, shape in shapes.items()
    }


def _imported(model: Any, params: dict[str, Any]) -> tvm.IRModule:
    """Import into one dataflow block, or into plain bindings if a conditional stays."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return _import(model, params, dataflow=True)
        except NeedsBranches:
            return _import(model, params, dataflow=False)


def _import(model: Any, params: dict[str, Any], dataflow: bool) -> tvm.IRModule:
    graph = GraphImport(model, dataflow)
    with tidied():
        mod = checked_sizes(named(graph.function(model.graph, params), graph.names))
    mod["main"] = mod["main"].with_attr("num_input", len(params))
    return noted(mod, graph.warnings)


def _hint(params: dict[str, Any], dims: Any) -> str:
    """Say which sizes to make static, as an option that can be copied."""
    symbols: set[Any] = set()
    for dim in dims:
        if isinstance(dim, tvm.ir.Expr):
            tvm_ffi.structural_walk(dim, (tvm.ir.Var, symbols.add))
    options = []
    for name, param in params.items():
        sizes = list(param.ty.shape.values)
        if any(size in symbols for size in sizes if isinstance(size, tvm.ir.Var)):
            texts = [str(size.value) if isinstance(size, tvm.tirx.IntImm)
                     else str(EXAMPLE) if size in symbols else KEPT for size in sizes]  # fmt: skip
            options.append(f"--shape {shortened(name, 80)}:{','.join(texts)}")
    named = ", ".join(sorted({f"'{shortened(s.name, 80)}'" for s in symbols}))
    return f"; make {named} static, for example {' '.join(options)}" if options else ""
