"""opinfo recovers the operators that TIR computes, with proof, and plans layouts and backends.

    mod = opinfo.load("model.onnx")
    print(opinfo.inspect(mod))              # the operator of every PrimFunc
    print(opinfo.plan(mod, {"conv2d": "NHWC"}).summary())
    compiled = opinfo.compile(mod, ["onednn"])
    y = compiled.run(x)
    compiled.export("model.so")

The parts are `analysis`, `layout`, `byoc` and `jit`; `transform` has the passes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import analysis, byoc, jit, layout, transform
    from .front.backend_choice import dispatch
    from .front.compiled_model import Compiled
    from .front.compiling import compile
    from .front.inspection import inspect
    from .front.planning import ModelPlan, plan
    from .front.tuning import tune
    from .frontend import FrontendError, load
    from .jit import Session
    from .report.operators import Report, Row

__all__ = [
    "Compiled",
    "FrontendError",
    "ModelPlan",
    "Report",
    "Row",
    "Session",
    "analysis",
    "byoc",
    "compile",
    "dispatch",
    "inspect",
    "jit",
    "layout",
    "load",
    "plan",
    "transform",
    "tune",
]

_PACKAGES = ("analysis", "byoc", "jit", "layout", "transform")
_HOME = {
    "Compiled": "front.compiled_model",
    "FrontendError": "frontend",
    "ModelPlan": "front.planning",
    "Report": "report.operators",
    "Row": "report.operators",
    "Session": "jit",
    "compile": "front.compiling",
    "dispatch": "front.backend_choice",
    "inspect": "front.inspection",
    "load": "frontend",
    "plan": "front.planning",
    "tune": "front.tuning",
}


def __getattr__(name: str) -> Any:
    """Import public names lazily, on first access."""
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
