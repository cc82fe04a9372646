"""Read Relax modules or single functions saved by `tvm.ir.save_json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm_ffi.serialization import from_json_graph_str

from ..checks.error import FrontendError, one_line
from ..checks.inferred import check_calls
from ..checks.input_shapes import Shapes
from ..checks.ir_json.json_graph import checked


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file; raises `FrontendError` if it is not JSON of an IRModule or a function."""
    try:
        value = loaded(path.read_text(encoding="utf-8"))
    except (ValueError, TypeError, AttributeError, KeyError, RuntimeError) as error:
        raise FrontendError(
            f"{path}: not a module of tvm.ir.save_json: {one_line(error)}"
        ) from error
    mod = as_module(value, path)
    try:
        check_calls(mod)
    except ValueError as error:
        raise FrontendError(f"{path}: the module is not well typed: {error}") from error
    return mod


def loaded(text: str | bytes) -> Any:
    """Load JSON after checking it; raises ``ValueError`` if it is not a well-typed graph.

    `tvm.ir.load_json` would first rename what older versions wrote, which the check refuses anyway,
    and write the text again in Python: seconds for a model of 4000 operators.
    """
    return from_json_graph_str(checked(text))


def as_module(value: object, path: Path) -> tvm.IRModule:
    """Return an IRModule, or wrap a function in one; raises `FrontendError` for other objects."""
    if isinstance(value, tvm.IRModule):
        return value
    if isinstance(value, relax.Function | tvm.tirx.PrimFunc):
        symbol = (value.attrs or {}).get("global_symbol") or "main"
        return tvm.IRModule({str(symbol): value})
    raise FrontendError(f"{path}: contains {type(value).__name__}, expected a module or function")
