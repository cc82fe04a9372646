"""Kernels specialised for the shapes that really come in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arguments.accept import BoundaryError
    from .arguments.boundary import Range, ShapeOutOfRange
    from .compile.compile import CompiledShapes, compile_shapes
    from .compile.specialize import Specialized, Told, specialize_shapes
    from .config.strategy import Aot, Config, Dim, Generic, Jit, Library, Record, Strategy
    from .kernels.compiler import Compiler
    from .runtime.manager import Budget, Event
    from .runtime.session import Session, SiteStats, Stats, stats
    from .store.store import KernelStore
    from .tune.record import Recording

_HOMES = {
    "arguments.accept": ("BoundaryError",),
    "arguments.boundary": ("Range", "ShapeOutOfRange"),
    "compile.compile": ("CompiledShapes", "compile_shapes"),
    "kernels.compiler": ("Compiler",),
    "runtime.manager": ("Budget", "Event"),
    "tune.record": ("Recording",),
    "runtime.session": ("Session", "SiteStats", "Stats", "stats"),
    "compile.specialize": ("Specialized", "Told", "specialize_shapes"),
    "store.store": ("KernelStore",),
    "config.strategy": ("Aot", "Config", "Dim", "Generic", "Jit", "Library", "Record", "Strategy"),
}
__all__ = [
    "Aot",
    "BoundaryError",
    "Budget",
    "CompiledShapes",
    "Compiler",
    "Config",
    "Dim",
    "Event",
    "Generic",
    "Jit",
    "KernelStore",
    "Library",
    "Range",
    "Record",
    "Recording",
    "Session",
    "ShapeOutOfRange",
    "SiteStats",
    "Specialized",
    "Stats",
    "Strategy",
    "Told",
    "compile_shapes",
    "specialize_shapes",
    "stats",
]


def __getattr__(name: str) -> Any:
    """Modules are imported when something of them is asked for: a store needs no compiler."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
