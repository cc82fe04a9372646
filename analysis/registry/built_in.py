"""The recognisers of this package: their modules, and which functions are from one."""

from __future__ import annotations

import functools
import pkgutil
import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

#: Recognisers of this package are imported, and so registered, when they are first needed.
BUILT_IN = f"{__package__.rpartition('.')[0]}.recognise."


@functools.cache
def modules() -> tuple[Any, ...]:
    """Return the modules of the package's own recognisers, in alphabetical order.

    They are discovered like those of other packages: a file in one of their folders is enough.
    """
    folder = str(Path(__file__).parents[1] / "recognise")
    entries = pkgutil.walk_packages([folder], BUILT_IN)
    names = sorted(m.name for m in entries if not m.ispkg and "._" not in m.name)
    return tuple(import_module(name) for name in names)


def identity(run: Any) -> tuple[str, str]:
    """Return the module and qualified name of a function or callable object, without wrappers."""
    if isinstance(run, functools.partial):
        return identity(run.func)
    owner = run if hasattr(run, "__qualname__") else type(run)
    return str(owner.__module__), str(owner.__qualname__)


def is_built_in(run: Any) -> bool:
    """Whether a function was defined in a module of this package.

    Decided by the globals of its code: ``functools.wraps`` copies ``__module__``.
    """
    if not isinstance(run, types.FunctionType):
        return False
    name = str(run.__globals__.get("__name__"))
    module = sys.modules.get(name)
    return name.startswith(BUILT_IN) and module is not None and run.__globals__ is vars(module)
