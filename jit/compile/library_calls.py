"""Dispatch operators with the strategy `Library` to backends that accept symbolic shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...analysis import OpInfo
from ...byoc.backend.backend import Backend
from ...byoc.backend.catalog import find, unusable
from ...byoc.dispatching.dispatch import Dispatcher, prepare_dispatch
from ...byoc.dispatching.dispatch_request import DispatchOptions
from ...byoc.matching.lowered import read
from ..config.strategy import Config, Library, chosen, strategy


def dispatch_to_backends(
    mod: Any,
    config: Config,
    backends: Sequence[str | Backend] = (),
    options: DispatchOptions | None = None,
) -> Dispatcher | None:
    """Dispatch operators of a lowered, unfused module; None if no backend is requested.

    ``backends`` take operators without an entry in ``by_op``; the backends of a `Library` strategy
    take its operators, if the strategy names them or there are no ``backends``. The dispatch can be
    retried without regions that fail to build. Operators that no backend takes stay, with the
    reason in ``left``.

    Raises:
        ValueError: ``by_function`` assigns `Library`: functions get names only by fusion, which
            comes later.
    """
    for name, choice in config.by_function.items():
        if isinstance(strategy(choice), Library):
            raise ValueError(f"by_function: the strategy of {name} is Library, which applies to "
                             "operators: use by_op or default")  # fmt: skip
    effective = replace(config, default=Library()) if backends else config
    strategies = map(strategy, (config.default, *config.by_op.values()))
    libraries = [s for s in strategies if isinstance(s, Library)]
    if not libraries and not backends:
        return None
    every = list(
        dict.fromkeys([*backends, *(b for s in libraries for b in _named(s, bool(backends)))])
    )
    infos = [f.info for f in read(mod, "Library").infos.values()]
    tvm_ops = {
        i.name
        for i in infos
        if isinstance(i, OpInfo) and not isinstance(chosen(effective, "", (i,)), Library)
    }
    options = options or DispatchOptions()
    force = dict.fromkeys(sorted(tvm_ops), "tvm") | dict(options.force or {})
    return prepare_dispatch(mod, every, replace(options, force=force))


def _named(strategy: Library, has_others: bool) -> list[str]:
    """Return the backends of a strategy; of the default ones, only those that can run here.

    Where a caller names others, as ``tvm``, the default ones are not asked for.
    """
    if has_others and strategy.backends == Library().backends:
        return []
    if strategy.backends != Library().backends:
        return list(strategy.backends)
    return [name for name in strategy.backends if unusable(find(name)) is None]
