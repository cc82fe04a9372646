"""Compile models with symbolic shapes: strategies, sessions, kernels, tuning."""

from typing import TYPE_CHECKING

from ..analysis.support.exports import exports

if TYPE_CHECKING:
    from .arguments.acceptor import BoundaryError
    from .arguments.boundary import Range, ShapeOutOfRange
    from .compile.compile_shapes import CompiledShapes, compile_shapes
    from .compile.specialize import specialize_shapes
    from .compile.specialized_function import Specialized, SpecializedFunction
    from .config.strategy import Aot, Config, Dim, Generic, Jit, Library, Record, Strategy
    from .kernels.compiler import Compiler
    from .runtime.generation import Generation
    from .runtime.kernel_manager import Budget
    from .runtime.session import Session, stats
    from .runtime.session_events import Event, Settled, Waiting
    from .runtime.session_stats import SiteStats, Stats
    from .store.store import KernelStore
    from .tune.record import Recording

_HOMES = {
    "arguments.acceptor": ("BoundaryError",),
    "arguments.boundary": ("Range", "ShapeOutOfRange"),
    "compile.compile_shapes": ("CompiledShapes", "compile_shapes"),
    "kernels.compiler": ("Compiler",),
    "runtime.generation": ("Generation",),
    "runtime.kernel_manager": ("Budget",),
    "runtime.session_events": ("Event", "Settled", "Waiting"),
    "tune.record": ("Recording",),
    "runtime.session": ("Session", "stats"),
    "runtime.session_stats": ("SiteStats", "Stats"),
    "compile.specialize": ("specialize_shapes",),
    "compile.specialized_function": ("Specialized", "SpecializedFunction"),
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
    "Generation",
    "Generic",
    "Jit",
    "KernelStore",
    "Library",
    "Range",
    "Record",
    "Recording",
    "Session",
    "Settled",
    "ShapeOutOfRange",
    "SiteStats",
    "Specialized",
    "SpecializedFunction",
    "Stats",
    "Strategy",
    "Waiting",
    "compile_shapes",
    "specialize_shapes",
    "stats",
]


__getattr__ = exports(__name__, _HOMES, {"Told": "SpecializedFunction"})


def __dir__() -> list[str]:
    return sorted(__all__)
