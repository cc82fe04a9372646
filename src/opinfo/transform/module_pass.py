"""Make a pass of a function of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm


def module_pass(name: str, run: Callable[[Any], Any]) -> Any:
    """Return a module pass of this name that applies a function."""
    return tvm.transform.module_pass(lambda mod, _: run(mod), opt_level=0, name=f"opinfo.{name}")
