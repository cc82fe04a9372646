"""PrimFuncs that `LegalizeOps` did not make, each with the operator that it is by definition.

A module or a folder a family; `corpus()` collects their `CASES`. Expected names, attributes and
layouts are written by hand from what the program computes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from .case import Foreign


def corpus() -> Iterator[tuple[str, Foreign]]:
    """``(family, case)`` of every module here, in sorted order."""
    for name, module in _modules(__name__):
        for part in [module, *(m for _, m in _modules(module.__name__))]:
            for case in getattr(part, "CASES", ()):
                yield name, case


def _modules(package: str) -> list[tuple[str, ModuleType]]:
    """The modules in a package by name; none in a module that is not a package."""
    path = getattr(importlib.import_module(package), "__path__", [])
    names = sorted(m.name for m in pkgutil.iter_modules(path))
    return [(name, importlib.import_module(f"{package}.{name}")) for name in names]
