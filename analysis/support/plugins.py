"""Installed packages that extend opinfo: found by their entry points, loaded when they are needed.

    [project.entry-points."opinfo.backends"]
    their_npu = "their_package.backend:THEIR_NPU"

Entry points are read once a process. Loading one runs the package's code: ``OPINFO_PLUGINS=0``
switches that off.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

BACKENDS, RECOGNISERS = "opinfo.backends", "opinfo.recognisers"
#: Environment variable: ``0`` is without plug-ins.
VARIABLE = "OPINFO_PLUGINS"


class PluginError(Exception):
    """Why a plug-in cannot be used, in one line."""


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
        """What the entry point names. Raises :class:`PluginError` if its package cannot give it."""
        try:
            return metadata.EntryPoint(self.name, self.value, "").load()
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # code of somebody else; it may exit as well
            raise PluginError(f"{self}: {_described(e)}") from e

    def owns(self, module: str) -> bool:
        """Whether a module lies in the package that the entry point's module is in."""
        package = self.module.rpartition(".")[0] or self.module
        return module == package or module.startswith(f"{package}.")


def enabled() -> bool:
    """Whether plug-ins are loaded. Any value of the variable but ``1`` switches them off."""
    return os.environ.get(VARIABLE, "1") in ("", "1")


def installed(group: str) -> tuple[Plugin, ...]:
    """The plug-ins of a group, by name, then by distribution; none where they are switched off."""
    return _installed(group) if enabled() else ()


@cache
def _installed(group: str) -> tuple[Plugin, ...]:
    try:
        found = [_plugin(e) for e in metadata.entry_points(group=group)]
    except Exception as e:  # a distribution whose metadata are damaged
        warnings.warn(f"entry points of {group} cannot be read: {_described(e)}", stacklevel=3)
        return ()
    return tuple(sorted(set(found), key=lambda p: (p.name, p.distribution, p.value)))


def _plugin(entry: metadata.EntryPoint) -> Plugin:
    try:
        owner = (str(entry.dist.metadata["Name"]), entry.dist.version) if entry.dist else None
    except Exception:  # its metadata are damaged: the entry point may still lead to a package
        owner = None
    return Plugin(entry.name, entry.value, *(owner or ("an unknown distribution", "")))


@cache
def fingerprint() -> str:
    """A digest of all plug-ins and their files; empty where there are none.

    What is kept on disk depends on it as it does on opinfo's own files.
    """
    plugins = [*installed(BACKENDS), *installed(RECOGNISERS)]
    digest = hashlib.sha256()
    for p in plugins:
        digest.update(f"{p}\0{_record(p)}\0".encode())
        for path in _sources(p.module):
            raw = path.read_bytes()
            digest.update(f"{path.name}\0{len(raw)}\0".encode() + raw)
    return digest.hexdigest()[:16] if plugins else ""


def _record(p: Plugin) -> str:
    """The list of a distribution's files with their hashes, as it was installed."""
    try:
        return metadata.distribution(p.distribution).read_text("RECORD") or ""
    except metadata.PackageNotFoundError:
        return ""


def _sources(module: str) -> Iterator[Path]:
    """The Python files of a module's top-level package: an editable one changes in place.

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


def _described(e: BaseException) -> str:
    """An error and the line that raised it: ``ImportError: no libnpu (their_npu/driver.py:7)``."""
    try:
        text = " ".join(str(e).split())[:200]
    except Exception as another:
        text = f"no text, its __str__ raised {type(another).__name__}"
    frames = traceback.extract_tb(e.__traceback__)
    machinery = ("<frozen importlib", os.path.dirname(importlib.__file__), __file__)
    own = [f for f in frames if not f.filename.startswith(machinery)]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(e).__name__}{f': {text}' if text else ''}{place}"
