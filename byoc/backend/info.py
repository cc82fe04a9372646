"""The list of backends: where each comes from, and why it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...analysis.support.plugins import Plugin, PluginError
from .backend import Backend
from .catalog import BUILT_IN, NAME_TAKEN, entries, loaded, outside, registered, unusable
from .guarded_calls import guarded


@dataclass(frozen=True)
class BackendInfo:
    """A backend, or a plug-in that could not be loaded.

    Attributes:
        name: The name to dispatch to it by.
        version: The version of its code and its library, as `Backend.version` returns it.
        distribution: The package that it comes from; empty if this process registered it.
        distribution_version: The version of that package.
        patterns: The names of its patterns.
        operators: Full names of the operators in its patterns.
        unavailable: Why this machine cannot use it; None if it can.
    """

    name: str
    version: str
    distribution: str
    distribution_version: str
    patterns: tuple[str, ...]
    operators: tuple[str, ...]
    unavailable: str | None = None


def list_backends() -> tuple[BackendInfo, ...]:
    """List the backends that are built in, come from installed packages, or are registered here.

    Loads each backend if possible.

    Returns:
        The built-in backends, those of packages, then those registered in this process only.
    """
    return tuple(_infos())


def _infos() -> Iterator[BackendInfo]:
    plugins = [*(p for name in BUILT_IN for p in entries(name)), *outside()]
    here, shown = registered(), set()
    for plugin in plugins:
        backend, why = _load(plugin)
        current = None if backend is None else here.get(backend.name, backend)
        if backend is not current:
            why = "another backend of this name was registered in this process"
        elif current is not None:
            shown.add(current.name)
        yield _info(plugin.name, backend, plugin.distribution, plugin.version, why)
    for name in sorted(set(here) - shown):
        yield _info(name, here[name], "", "", None)


def _load(plugin: Plugin) -> tuple[Backend | None, str | None]:
    """The backend of a plug-in, or why it cannot be loaded."""
    entry_points = entries(plugin.name)
    if plugin not in entry_points:
        return None, NAME_TAKEN
    try:
        return loaded(entry_points), None
    except PluginError as error:
        return None, str(error)


def _info(
    name: str, backend: Backend | None, distribution: str, number: str, why: str | None
) -> BackendInfo:
    if backend is None:
        return BackendInfo(name, "", distribution, number, (), (), why)
    steps = [*(s for p in backend.patterns for s in p.steps),
             *(s for c in backend.coarse for s in c.steps)]  # fmt: skip
    operators = tuple(sorted({n for s in steps for n in s.names}))
    version = guarded(backend, []).version()
    return BackendInfo(name, version, distribution, number, backend.pattern_names, operators,
                       why or unusable(backend))  # fmt: skip
