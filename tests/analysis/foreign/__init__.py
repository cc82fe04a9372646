"""PrimFuncs that `LegalizeOps` did not make, each with the operator that it is by definition.

A module a family; `corpus()` collects their `CASES`. Expected names, attributes and layouts are
written by hand from what the program computes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from .case import Foreign


def corpus() -> Iterator[tuple[str, Foreign]]:
    """``(family, case)`` of every module here, in sorted order."""
    for found in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{__name__}.{found.name}")
        for case in getattr(module, "CASES", ()):
            yield found.name, case
