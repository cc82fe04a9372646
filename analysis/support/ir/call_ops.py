"""The operator that an expression calls."""

from __future__ import annotations

from typing import Any

import tvm


def op_name(expr: Any) -> str:
    """Return the name of the operator that an expression calls; empty for everything else."""
    return str(getattr(getattr(expr, "op", None), "name", ""))


def is_call_tir(expr: Any) -> bool:
    """Return whether an expression is a ``call_tir``."""
    return isinstance(getattr(expr, "op", None), tvm.ir.Op) and op_name(expr) == "relax.call_tir"
