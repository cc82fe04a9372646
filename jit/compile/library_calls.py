"""Operators whose strategy is `Library`, as calls of backends that take symbolic shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...analysis import OpInfo
from ...byoc.backend.backend import Backend
from ...byoc.dispatching.dispatch import Dispatcher, prepare_dispatch
from ...byoc.dispatching.dispatch_request import Options
from ...byoc.matching.lowered import read
from ..config.strategy import Config, Library, chosen, strategy


def handed_over(
    mod: Any, given: Config, backends: Sequence[str | Backend] = (), options: Options | None = None
) -> Dispatcher | None:
    """A lowered module that is not fused yet, with operators handed over; None without any.

    ``backends`` take operators without a strategy of their own in ``by_op``, and those of the
    strategy `Library` its operators. It is done again where a region does not build.

    What no backend takes stays, with the reason in ``left``. Raises ``ValueError`` where a function
    by its name is given to a library: functions have names only once they are fused.
    """
    for name, s in given.by_function.items():
        if isinstance(strategy(s), Library):
            raise ValueError(f"Library is a strategy of operators or the default; by_function has "
                             f"it for {name}, which is made of what backends leave")  # fmt: skip
    handing = replace(given, default=Library()) if backends else given
    wanted = [s for s in map(strategy, (given.default, *given.by_op.values()))
              if isinstance(s, Library)]  # fmt: skip
    if not wanted and not backends:
        return None
    every = list(dict.fromkeys([*backends, *(b for s in wanted for b in s.backends)]))
    infos = [f.info for f in read(mod, "Library").infos.values()]
    own = {i.name for i in infos if isinstance(i, OpInfo)
           and not isinstance(chosen(handing, "", (i,)), Library)}  # fmt: skip
    options = options or Options()
    force = dict.fromkeys(sorted(own), "tvm") | dict(options.force or {})
    return prepare_dispatch(mod, every, replace(options, force=force))
