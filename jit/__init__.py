"""Kernels specialised for the shapes that really come in."""

from .boundary import BoundaryError, Range, ShapeOutOfRange
from .compile import CompiledShapes, compile_shapes
from .compiler import Compiler
from .manager import Budget, Event
from .record import Recording
from .session import Session, SiteStats, Stats, stats
from .specialize import Specialized, Told, specialize_shapes
from .store import KernelStore
from .strategy import Aot, Config, Dim, Generic, Jit, Library, Record, Strategy

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
