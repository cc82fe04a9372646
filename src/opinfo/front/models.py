"""Models as arguments: a module, or the path of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from ..frontend import load
from ..frontend.checks.not_a_path import described


def as_module(model: Any, verb: str, others: str = "") -> tvm.IRModule:
    """Return the module, loading it if ``model`` is a path.

    ``verb`` is the caller, which also accepts ``others``; the error message names both.

    Raises:
        FrontendError: The file cannot be read.
        TypeError: ``model`` has another type.
    """
    mod = load(model) if isinstance(model, (str, Path)) else model
    if not isinstance(mod, tvm.IRModule):
        expected = f"{others}a module or the path of a model"
        raise TypeError(f"{verb}: expected {expected}, got {described(model)}")
    return mod
