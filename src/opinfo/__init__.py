"""opinfo: given a TIR PrimFunc and nothing else, say which operator it computes, with proof."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import analysis, byoc, jit, layout, transform
    from .front.compiled_model import Compiled
    from .front.compiling import compile
    from .front.inspection import inspect
    from .frontend import FrontendError, load
    from .jit import Session
    from .report.operators import Report, Row

__all__ = ["Compiled", "FrontendError", "Report", "Row", "Session", "analysis", "byoc", "compile",
           "inspect", "jit", "layout", "load", "transform"]  # fmt: skip

_HOME = {
    "Compiled": "front.compiled_model",
    "FrontendError": "frontend",
    "Report": "report.operators",
    "Row": "report.operators",
    "Session": "jit",
    "compile": "front.compiling",
    "inspect": "front.inspection",
    "load": "frontend",
}


def __getattr__(name: str) -> Any:
    """Modules are imported when something of them is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_HOME.get(name, name)}", __name__)
    found = globals()[name] = getattr(module, name) if name in _HOME else module
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
