"""Kernels specialised for the shapes that really come in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accept import BoundaryError
    from .boundary import Range, ShapeOutOfRange
    from .compile import CompiledShapes, compile_shapes
    from .compiler import Compiler
    from .manager import Budget, Event
    from .record import Recording
    from .session import Session, SiteStats, Stats, stats
    from .specialize import Specialized, Told, specialize_shapes
    from .store import KernelStore
    from .strategy import Aot, Config, Dim, Generic, Jit, Library, Record, Strategy

_HOMES = {
    "accept": ("BoundaryError",),
    "boundary": ("Range", "ShapeOutOfRange"),
    "compile": ("CompiledShapes", "compile_shapes"),
    "compiler": ("Compiler",),
    "manager": ("Budget", "Event"),
    "record": ("Recording",),
    "session": ("Session", "SiteStats", "Stats", "stats"),
    "specialize": ("Specialized", "Told", "specialize_shapes"),
    "store": ("KernelStore",),
    "strategy": ("Aot", "Config", "Dim", "Generic", "Jit", "Library", "Record", "Strategy"),
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
