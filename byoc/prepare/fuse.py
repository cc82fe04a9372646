"""TVM's fusion of the operators that no backend took."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ...analysis.lifting.tir.int64_extents import int64_extents


def fuse(mod: Any) -> Any:
    """The module with the remaining operators fused by TVM."""
    passes = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(),
              relax.transform.FuseTIR()]  # fmt: skip
    return tvm.transform.Sequential(passes)(int64_extents(mod))
