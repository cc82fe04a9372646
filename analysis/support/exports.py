"""Lazy exports of a package, and old names that work with a warning.

Exported names are imported on first use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from .garbage import rare_collections
from .warn import warn

P = ParamSpec("P")
R = TypeVar("R")


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
            warn(f"{package}.{name} is deprecated: use {package}.{new}", DeprecationWarning)
            return getattr(sys.modules[package], new)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with rare_collections():  # TVM makes many objects that live on
            value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


def renamed_parameter(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: the function accepts a parameter by its old keyword for one release."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(
                        f"{function.__name__}: got {old} and {new}; {old} is the old name"
                    )
                text = f"{function.__name__}: the parameter {old} is deprecated: use {new}"
                warn(text, DeprecationWarning)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorated
