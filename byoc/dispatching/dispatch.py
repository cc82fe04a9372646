"""Assign operators of a lowered module to backends.

request → match → cost → choose → convert → partition; regions that do not convert are excluded, and
the steps from matching on run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import tvm

from ...analysis.support.progress import stage
from ...analysis.support.warn import warn
from ...layout.graph.not_lowered import warn_if_not_lowered
from ...layout.search.constraints import Desired
from ..backend.backend import Backend, Code
from ..calibration.calibration import Calibration
from ..codegen.failing_regions import Unbuildable
from ..matching.force import CannotForce
from ..matching.lowered import Lowered
from .choice.choose import ChosenMatches, choose
from .convert_regions import AssignedRegion, assign_regions, convert_regions, find_unbuildable
from .cost_matches import cost_matches
from .dispatch_request import DispatchOptions, DispatchRequest, plan_layouts, read_request
from .dispatched import Dispatched, OffloadedRegion
from .exclusions import Exclusions
from .match_regions import match_regions, match_remaining
from .partition_module import partition, replaced

if TYPE_CHECKING:
    from ..measure import Measure


def dispatch(
    mod: Any,
    backends: Sequence[str | Backend],
    priority: Mapping[str, int] | None = None,
    *,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
    layouts: Literal["given", "best"] = "given",
    desired: Desired | str | None = None,
    calibration: Calibration | None = None,
) -> Dispatched:
    """Assign each operator of a lowered module to the best backend that takes it.

    If a backend is not available or its code fails, opinfo warns, and the operators go to the next
    backend or to TVM.

    Args:
        mod: A Relax module after ``LegalizeOps``; it is not changed.
        backends: Names or `Backend` objects.
        priority: The class of each backend, by default 3; higher classes win. TVM's own code is in
            class 1, so a backend below that takes nothing.
        force: Operators that must go to one backend: ``{"nn.conv2d": "onednn"}``, or to one of its
            patterns, ``"onednn.conv"``.
        measure: Measure the code of all matches, and TVM's code for the same operators. Candidates
            that fail or compute wrong results are excluded. Within a class, the fastest wins;
            without `priority`, all backends and TVM share one class.
        layouts: ``"best"`` also chooses layouts, among those that backends prefer.
        desired: With ``layouts="best"``, the layouts that operators must have, as for
            `plan_layout`.
        calibration: What kinds of work cost on this machine, by backend and with TVM. It takes the
            place of the estimates of the backends that it has samples of.

    Returns:
        The module, the backend of each operator or why it stays with TVM, and a plan to replay.

    Raises:
        CannotForce: An operator cannot go where `force` says.
        TypeError: An argument has the wrong type.
        ValueError: The arguments are inconsistent.
    """
    options = DispatchOptions(
        priority, force, measure and measure.anew(), layouts, desired, calibration
    )
    if isinstance(mod, tvm.IRModule):
        warn_if_not_lowered(mod, "dispatch")
    dispatcher = prepare_dispatch(mod, backends, options)
    result = dispatcher.run()
    warn_of_failures(result)
    return result


def prepare_dispatch(
    mod: Any, backends: Sequence[str | Backend], options: DispatchOptions
) -> Dispatcher:
    """Read the request, and plan layouts if requested. Raises as `dispatch` does."""
    request = read_request(mod, backends, options)
    if options.layouts == "best":
        request = plan_layouts(request, options)
    return Dispatcher(request)


class Dispatcher:
    """Dispatches one request; each run leaves out the regions that failed before it.

    Attributes:
        regions: The regions of the last choice.
    """

    def __init__(self, request: DispatchRequest) -> None:
        self.exclusions = Exclusions(request)
        self.regions: list[AssignedRegion] = []
        self.codes: Sequence[Code] = ()
        self._chosen: ChosenMatches | None = None
        self._next: ChosenMatches | None = None

    @property
    def lowered(self) -> Lowered:
        """The module in the layouts of the request."""
        return self.exclusions.request.lowered

    def run(self) -> Dispatched:
        """Return the module partitioned into the best regions that convert.

        Raises:
            CannotForce: An operator that must go to a backend cannot.
        """
        chosen = self.choose()
        return partition(self.exclusions.request, self.regions, self.codes, chosen,
                         self.exclusions)  # fmt: skip

    def module(self) -> Any:
        """Return the module of `run`, without a report. Raises as `run` does."""
        self.choose()
        return replaced(self.exclusions.request.lowered, self.regions, self.codes)

    def choose(self) -> ChosenMatches:
        """Choose regions and convert them, unless that is done. Raises as `run` does."""
        while self._chosen is None:
            stage("choosing backends")
            request = self.exclusions.request
            chosen, self._next = self.choice(), None
            self.regions = assign_regions(request.lowered, chosen.matches, request.backends)
            conversion = convert_regions(self.regions, request.backends)
            self.exclusions.note(conversion.failures)
            if conversion.faults:
                self.exclusions.add(self.regions, conversion.faults)
            else:
                self._chosen, self.codes = chosen, conversion.codes
        return self._chosen

    def choice(self) -> ChosenMatches:
        """Return the best regions before their code is generated. Raises as `run` does."""
        if self._next is None:
            try:
                self._next = choose_regions(self.exclusions.request)
            except CannotForce as error:
                raise self.exclusions.explained(error) from error
        return self._next

    def exclude_unbuildable(self, error: Exception) -> bool:
        """Exclude the regions of the last run that do not build; False if all of them build.

        Args:
            error: The exception of the build with all regions.
        """
        if not self.regions:
            return False
        try:
            faults = find_unbuildable(self.regions, self.exclusions.request.backends, error)
        except Unbuildable:
            return False
        self.exclusions.add(self.regions, faults)
        self._chosen = None
        return True


def choose_regions(request: DispatchRequest) -> ChosenMatches:
    """The best regions. Operators that a choice leaves over may form further regions."""
    rules = request.rules
    matches = match_regions(request)
    while True:
        costed = cost_matches(request, matches)
        chosen = choose(costed.matches, rules.classes, costed.staying, rules.must,
                        request.lowered.ring)  # fmt: skip
        further = match_remaining(request, chosen.matches, matches)
        if not further:
            return chosen
        matches = [*matches, *further]


def warn_of_failures(result: Dispatched) -> None:
    """Warn of each failure of a backend."""
    for failure in result.failed:
        warn(str(failure))


__all__ = ["DispatchOptions", "Dispatched", "OffloadedRegion", "dispatch", "prepare_dispatch"]
