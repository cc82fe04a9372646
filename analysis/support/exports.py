"""Lazy exports of a package: names are imported on first use; old names work with a warning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .warn import warn


def exports(
    package: str, homes: Mapping[str, tuple[str, ...]], renamed: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its ``__name__``.
        homes: The names that each of its modules defines.
        renamed: New names by old names; an old name works for one release.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if renamed and name in renamed:
            new = renamed[name]
            warn(f"{package}.{name} is {package}.{new} now", DeprecationWarning)
            return getattr(sys.modules[package], new)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
