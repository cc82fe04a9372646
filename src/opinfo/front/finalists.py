"""How many builds of a model are worth their CPU time.

What a build takes is predicted by one of the same model: operators are matched, costed and planned
one by one, and constants are written, linked and loaded several times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..verify.trial_runs import TrialRun
from .compiled_model import Compiled
from .fastest import agreeing, least

#: CPU seconds of a build for each operator, and for each byte of its library.
OPERATOR, BYTE = 5e-3, 2e-8
#: The most CPU seconds of a build that is raced only to see whether runtimes help.
WITHOUT_RUNTIMES = 12.0
#: The most CPU seconds of the mixed choice, if runtimes have the whole model and agree.
MIXED = 25.0


def seconds(builds: Mapping[str, Compiled]) -> float:
    """Return the CPU seconds that one more build is predicted to take; 0 without builds."""
    return max((OPERATOR * _operators(build) + BYTE * build.library.stat().st_size
                for build in builds.values()), default=0.0)  # fmt: skip


def suffices(
    builds: Mapping[str, Compiled], runs: Mapping[str, TrialRun], files: Collection[str] = ()
) -> bool:
    """Return whether single runtimes may be the only finalists.

    The fastest one must have all operators, and outputs that another build has too: if libraries
    disagree, the mixed choice is a witness.

    Args:
        builds: The builds of single runtimes.
        runs: Their runs.
        files: The builds of the model's file.
    """
    times = {name: least(runs, name) for name in runs}
    name = min(times, key=lambda n: times[n], default=None)
    if name is None or name not in agreeing(runs, runs, builds, files):
        return False
    dispatched = builds[name].dispatched
    return dispatched is not None and not dispatched.left


def _operators(build: Compiled) -> int:
    dispatched = build.dispatched
    if dispatched is None:
        return 0
    return sum(len(region.ops) for region in dispatched.taken) + len(dispatched.left)
