"""Plug-ins: installed packages that extend opinfo, discovered by their entry points.

    [project.entry-points."opinfo.backends"]
    their_npu = "their_package.backend:THEIR_NPU"

Entry points are read once per process, and loaded when needed. Loading one runs the package's code;
``OPINFO_PLUGINS=0`` disables plug-ins.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .files.file_digest import add_file
from .warn import warn

BACKENDS, RECOGNISERS = "opinfo.backends", "opinfo.recognisers"
#: Environment variable; ``0`` disables plug-ins.
VARIABLE = "OPINFO_PLUGINS"


class PluginError(Exception):
    """A plug-in cannot be used; the message is one line."""


@dataclass(frozen=True)
class Plugin:
    """An entry point: ``value`` is ``package.module`` or ``package.module:attribute``."""

    name: str
    value: str
    distribution: str
    version: str

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    def __str__(self) -> str:
        return f"{self.name} of {self.distribution} {self.version} ({self.value})"

    def load(self) -> Any:
        """Return the object that the entry point names; raise :class:`PluginError` if it fails."""
        try:
            return metadata.EntryPoint(self.name, self.value, "").load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # foreign code; it may even exit
            raise PluginError(f"{self}: {_described(error)}") from error

    def owns(self, module: str) -> bool:
        """Return whether a module belongs to the package of the entry point's module."""
        package = self.module.rpartition(".")[0] or self.module
        return module == package or module.startswith(f"{package}.")


def enabled() -> bool:
    """Return whether plug-ins are enabled; any value of the variable but ``1`` disables them."""
    value = os.environ.get(VARIABLE, "1")
    if value not in ("", "0", "1"):
        _warn_of_value(value)
    return value in ("", "1")


@cache
def _warn_of_value(value: str) -> None:
    """Warn once of a value that is neither 0 nor 1, such as ``true``."""
    warn(f"{VARIABLE}={value}: expected 0 or 1; plug-ins are disabled")


def installed(group: str) -> tuple[Plugin, ...]:
    """Return the plug-ins of a group, by name, then by distribution; none if disabled."""
    return _installed(group) if enabled() else ()


@cache
def _installed(group: str) -> tuple[Plugin, ...]:
    try:
        plugins = [_plugin(e) for e in metadata.entry_points(group=group)]
    except Exception as error:  # a distribution with damaged metadata
        warn(f"entry points of {group} cannot be read: {_described(error)}")
        return ()
    return tuple(
        sorted(set(plugins), key=lambda plugin: (plugin.name, plugin.distribution, plugin.value))
    )


def _plugin(entry: metadata.EntryPoint) -> Plugin:
    try:
        owner = (str(entry.dist.metadata["Name"]), entry.dist.version) if entry.dist else None
    except Exception:  # damaged metadata: the entry point may still lead to a package
        owner = None
    return Plugin(entry.name, entry.value, *(owner or ("an unknown distribution", "")))


@cache
def fingerprint() -> str:
    """Return a digest of all plug-ins and their files; empty if there are none.

    Caches on disk depend on it, as they do on opinfo's own files.
    """
    plugins = [*installed(BACKENDS), *installed(RECOGNISERS)]
    digest = hashlib.sha256()
    for plugin in plugins:
        digest.update(f"{plugin}\0{_record(plugin)}\0".encode())
        for path in _sources(plugin.module):
            add_file(digest, path.name, path)
    return digest.hexdigest()[:16] if plugins else ""


def _record(plugin: Plugin) -> str:
    """The list of a distribution's files with their hashes at installation."""
    try:
        return metadata.distribution(plugin.distribution).read_text("RECORD") or ""
    except metadata.PackageNotFoundError:
        return ""


def _sources(module: str) -> Iterator[Path]:
    """The Python files of a module's top-level package: an editable package changes in place.

    Nothing is imported.
    """
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from sorted(Path(folder).rglob("*.py"))
    if spec.origin and spec.origin.endswith(".py") and spec.submodule_search_locations is None:
        yield Path(spec.origin)


def _described(error: BaseException) -> str:
    """An error and the line that raised it: ``ImportError: no libnpu (their_npu/driver.py:7)``."""
    try:
        text = " ".join(str(error).split())[:200]
    except Exception as another:
        text = f"no text, its __str__ raised {type(another).__name__}"
    frames = traceback.extract_tb(error.__traceback__)
    machinery = ("<frozen importlib", os.path.dirname(importlib.__file__), __file__)
    outside = [f for f in frames if not f.filename.startswith(machinery)]
    place = f" ({outside[-1].filename}:{outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{place}"
