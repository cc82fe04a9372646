"""Find the regions that do not build, by building subsets of them without the model.

The regions are halved until single ones are left. The reason says if they only fail together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ..backend.backend import Code
from ..backend.region import Region
from ..patterns.failure import Fault, ForeignError, one_line
from .compilers.toolchain import CompilerError
from .executable import executable
from .export import export_library
from .loading.check_arity import Miscalled, check_calls
from .loading.check_init import MissingInit, check_init
from .loading.check_plans import Unplanned
from .loading.load_checked import LoadError, load_checked
from .partition import attached

#: The most libraries built to find the failing regions; regions not reached count as failing.
MOST = 40


Convert = Callable[[Sequence[Region]], Sequence[Code]]


class Unbuildable(Exception):
    """Not even a module without regions builds; the message says why."""


def culprits(regions: Sequence[Region], convert: Convert, error: Exception) -> dict[str, Fault]:
    """The faults of regions that do not build, by symbol; ``error`` is that of the whole build.

    Raises:
        Unbuildable: Not even a module without regions builds.
    """
    if isinstance(error, Miscalled):
        return {symbol: Fault("arity", why) for symbol, why in error.wrong.items()}
    if isinstance(error, Unplanned):
        return {symbol: Fault("plan", why) for symbol, why in error.wrong.items()}
    if isinstance(error, CompilerError) and error.broken:
        _check_builds()
    faults = _FailureSearch(convert).faults(list(regions))
    if len(faults) == len(regions):
        _check_builds()
    return faults


def _check_builds() -> None:
    """Raises `Unbuildable` if a module without any region does not build."""
    try:
        _built([], [])
    except Exception as error:
        raise Unbuildable(one_line(error)) from error


class _FailureSearch:
    def __init__(self, convert: Convert) -> None:
        self.convert, self.builds = convert, MOST

    def faults(self, regions: Sequence[Region]) -> dict[str, Fault]:
        fault = self.fault(regions)
        if fault is None:
            return {}
        if len(regions) == 1 or self.builds <= 0:
            return {r.symbol: fault for r in regions}
        half = len(regions) // 2
        low, high = regions[:half], regions[half:]
        faults = {**self.faults(low), **self.faults(high)}
        if not faults:
            together = Fault(fault.stage, f"{fault.reason} (together with other regions only)")
            return {r.symbol: together for r in high}
        return faults

    def fault(self, regions: Sequence[Region]) -> Fault | None:
        """Why these regions do not build together; None if they do."""
        self.builds -= 1
        try:
            codes = self.convert(regions)
        except ForeignError as error:
            return Fault("convert", str(error))
        try:
            _built(regions, codes)
        except CompilerError as error:
            return Fault(error.stage, str(error))
        except Miscalled as error:
            return Fault("arity", str(error))
        except MissingInit as error:
            return Fault("constants", str(error))
        except LoadError as error:
            return Fault("load", str(error))
        except Exception as error:
            return Fault("load", one_line(error))
        return None


def _built(regions: Sequence[Region], codes: Sequence[Code]) -> None:
    """Build and load the regions in a module that only refers to them."""
    mod = attached(_module(regions), codes)
    program = executable(mod, "llvm")
    options = [*(o for c in codes for o in c.options), "-O0"]  # the code never runs
    with tempfile.TemporaryDirectory(prefix="opinfo-") as folder:
        library = str(Path(folder) / "probe.so")
        export_library(program, library, options)
        loaded = load_checked(library, tvm.cpu())
        check_init(loaded, mod)
        check_calls(loaded, regions)


def _module(regions: Sequence[Region]) -> Any:
    """A function that never runs; loading it resolves the symbols that it calls."""
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.ObjectType())
    with builder.function("main", [value]):
        for region in regions:
            call = relax.call_pure_packed(region.symbol, value, ty_args=[relax.ObjectType()])
            value = builder.emit(call)
        builder.emit_func_output(value)
    return builder.get()
