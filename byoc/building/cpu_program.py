"""The program of a fused module for a CPU: its PrimFuncs scheduled, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...analysis.support.wording import last_line
from ..backends.common.region_source import TEAM
from ..codegen.checks.unchecked_arguments import with_unchecked_arguments
from ..codegen.executable import executable
from ..codegen.failed_build import build_error
from ..prepare.loops.guard_stores import guard_stores
from ..prepare.loops.parallel_loops import has_barriers, parallel_loops
from ..prepare.loops.split_branches import split_branches
from ..prepare.loops.start_reductions import start_reductions
from .llvm_level import at_level
from .parallel_launch import parallel_launch
from .read_target import read_target


def cpu_program(mod: Any, target: Any, options: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Compile a fused module for a CPU; return the program, and what to link it with.

    Long functions get a schedule of ours. Where TVM does not build one, a warning says so, and the
    function keeps the loops of its operators.

    Args:
        mod: The module after fusion.
        target: TVM's target.
        options: The compiler options of the regions' code, which say whether it has a team.

    Raises:
        FailedBuild: TVM cannot build a PrimFunc.
    """
    from ..schedule.scheduled_functions import replaced, scheduled_functions  # with all rules

    cores = int(read_target(target).attrs.get("num-cores") or 1)
    team = cores > 1 and TEAM in options and not has_barriers(mod)
    launch = parallel_launch() if team else None
    link = () if launch is None else (launch,)
    ours = scheduled_functions(mod, target, cores if link else 1)
    plain = split_branches(guard_stores(start_reductions(mod)))
    if link:  # else TVM's pool runs the parallel loops that there are
        plain = parallel_loops(plain, cores)
    try:
        return _compiled(replaced(plain, ours), target), link
    except Exception:
        failed = {name: build_error(func, name, target) for name, func in ours.items()}
        if not any(failed.values()):
            raise
    for name, error in failed.items():
        if error is not None:
            warnings.warn(f"{name} keeps the loops of its operators: TVM does not build its "
                          f"schedule: {last_line(error)[:200]}", stacklevel=2)  # fmt: skip
    built = {name: func for name, func in ours.items() if failed[name] is None}
    return _compiled(replaced(plain, built), target), link


def _compiled(mod: Any, target: Any) -> Any:
    return executable(with_unchecked_arguments(mod), at_level(mod, target))
