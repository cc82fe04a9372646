"""The program of a fused module for a CPU: its PrimFuncs scheduled, and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ...analysis.support.warn import warn
from ...analysis.support.wording import last_line
from ..backends.common.region_source import TEAM
from ..codegen.checks.unchecked_arguments import with_unchecked_arguments
from ..codegen.executable import executable
from ..codegen.failed_build import build_error
from ..prepare.loops.guard_stores import guard_stores
from ..prepare.loops.parallel_loops import has_barriers, parallel_loops
from ..prepare.loops.split_branches import split_branches
from ..prepare.loops.start_reductions import start_reductions
from .built_apart import built_apart
from .llvm_level import at_level, is_plain
from .parallel_launch import parallel_launch
from .read_target import read_target


def cpu_program(mod: Any, target: Any, options: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Compile a fused module for a CPU; return the program, and what to link it with.

    Long functions get a schedule of ours. Where TVM does not build one, a warning says so, and the
    function keeps the loops of its operators; all do if it builds each alone.

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
    except Exception as error:
        if not ours:
            raise
        failed = {name: why for name, func in ours.items()
                  if (why := build_error(func, name, target)) is not None}  # fmt: skip
        failed = failed or dict.fromkeys(ours, error)  # they fail together, or something else does
    built = {name: func for name, func in ours.items() if name not in failed}
    program = _compiled(replaced(plain, built), target)
    for name, why in failed.items():
        warn(f"{name} keeps the loops of its operators: TVM does not build its schedule: "
             f"{last_line(why)[:200]}")  # fmt: skip
    return program, link


def _compiled(mod: Any, target: Any) -> Any:
    """Compile a module, the functions that gain nothing by LLVM's level 3 at level 2."""
    mod, lower = with_unchecked_arguments(mod), at_level(target)
    funcs = {_symbol(gvar, func): func for gvar, func in mod.functions_items()
             if isinstance(func, tirx.PrimFunc)}  # fmt: skip
    plain = {name for name, func in funcs.items() if is_plain(func)}
    if lower is None or not plain:
        return executable(mod, target)
    if len(plain) == len(funcs):
        return executable(mod, lower)
    return executable(mod, target, lambda lowered: built_apart(lowered, plain, lower))


def _symbol(gvar: Any, func: Any) -> str:
    """The name that a function has after lowering."""
    return str((func.attrs or {}).get("global_symbol", gvar.name_hint))
