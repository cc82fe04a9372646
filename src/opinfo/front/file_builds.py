"""Builds of the file that a module was loaded from, one for each runtime that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..byoc.backend.catalog import find
from ..byoc.calibration.calibrations import ActiveCalibration
from ..byoc.compile import SharedWork
from ..byoc.compile_file import compile_file
from ..byoc.dispatching.choice.plan_file import DispatchPlan, PlanRefused
from ..frontend.source_file import SourceFile, StaticFile
from ..jit.arguments.signature import Signature
from .compiled_model import Compiled


class FileBuilds:
    """Makes a build for a runtime; the file is read again when it is needed.

    Args:
        source: The file.
        mod: The module that was loaded from it, with static shapes.
        target: TVM's target.
        signatures: The parameters of the module's functions.
        costs: The calibration that other builds are chosen by.
        shared: What builds of the module share.
    """

    def __init__(
        self, source: SourceFile, mod: Any, target: Any, signatures: Mapping[str, Signature],
        costs: ActiveCalibration | None, shared: SharedWork,
    ) -> None:  # fmt: skip
        self.source, self.mod, self.target = source, mod, target
        self.signatures, self.costs, self.shared = signatures, costs, shared
        self._static: StaticFile | None = None

    def runtimes(self, names: Sequence[str]) -> list[str]:
        """Return the backends among these that read files."""
        return [name for name in names if find(name).reader is not None]

    def build(self, name: str, runs_elsewhere: bool) -> Compiled:
        """Make the build of a runtime.

        Raises:
            FrontendError: The file has changed, or runtimes cannot get it.
            FileRefused: The runtime does not take it.
            RuntimeError: The library cannot be built or loaded.
        """
        if self._static is None:
            params = self.signatures["main"].params
            self._static = self.source.static(
                [[e for e in p.shape or () if isinstance(e, int)] for p in params]
            )
        static = self._static
        library = compile_file(self.mod, name, static.content, static.inputs, static.outputs,
                               self.source.digest, target=self.target, shared=self.shared,
                               runs_elsewhere=runs_elsewhere)  # fmt: skip
        return Compiled(self.target, library, self.signatures, self.costs)

    def release(self) -> None:
        """Let go of the file's content."""
        self._static = None


def replayed(files: FileBuilds | None, plan: DispatchPlan) -> Compiled:
    """Make the build of a plan for the file that a module was loaded from.

    Raises:
        PlanRefused: The module is not what was loaded from that file, or its backend is another
            version or does not take the file.
    """
    if files is None:
        raise PlanRefused("the plan is of a file, but this module is not what was loaded from one")
    if files.source.digest != plan.file:
        raise PlanRefused("the plan is of another file, or of another version of this file")
    backends = [region.backend for region in plan.regions]
    if len(backends) != 1 or set(plan.backends) != set(backends):
        raise PlanRefused(f"the plan of a file names {len(backends)} regions, expected one")
    try:
        plan.check(files.mod, {name: find(name).version() for name in backends})
        return files.build(backends[0], runs_elsewhere=False)
    except PlanRefused:
        raise
    except ValueError as error:  # `FrontendError` and `FileRefused` too
        raise PlanRefused(f"the plan's file cannot be built: {error}") from error
    finally:
        files.release()
