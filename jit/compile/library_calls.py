"""Operators whose strategy is `Library`, as calls of backends that take symbolic shapes."""

from __future__ import annotations

from typing import Any

from ...analysis import OpInfo
from ...byoc.dispatching.dispatch import Options, attempt
from ...byoc.dispatching.retry import Attempt
from ...byoc.matching.lowered import read
from ..config.strategy import Config, Library, chosen, strategy


def handed_over(mod: Any, given: Config) -> Attempt | None:
    """A lowered module that is not fused yet, with such operators handed over; None without any.

    It is done again where a region does not build.

    What no backend takes stays, with the reason in ``left``. Raises ``ValueError`` where a function
    by its name is given to a library: functions have names only once they are fused.
    """
    for name, s in given.by_function.items():
        if isinstance(strategy(s), Library):
            raise ValueError(f"Library is a strategy of operators or the default; by_function has "
                             f"it for {name}, which is made of what backends leave")  # fmt: skip
    wanted = [s for s in map(strategy, (given.default, *given.by_op.values()))
              if isinstance(s, Library)]  # fmt: skip
    if not wanted:
        return None
    backends = list(dict.fromkeys(b for s in wanted for b in s.backends))
    infos = [f.info for f in read(mod, "Library").infos.values()]
    own = {i.name for i in infos if isinstance(i, OpInfo)
           and not isinstance(chosen(given, "", (i,)), Library)}  # fmt: skip
    return attempt(mod, backends, Options(force=dict.fromkeys(sorted(own), "tvm")))
