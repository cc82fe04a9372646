"""LLVM's level of optimisation for functions that more unrolling does not make faster.

At level 3, TVM's default, LLVM unrolls nests of twice the size that it does at level 2. That pays
where an index then becomes a number: a resize took 0.6 x the time. Elementwise operators, pools,
norms, products and copies ran as long either way (0.98 to 1.02 x), but a fused concat of 21 tensors
took 1.9 instead of 0.4 s of CPU to compile, and the sum of 15 rows of 200 with a ReLU 1.5 instead
of 0.1.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .read_target import read_target

LEVEL = "opt-level"
#: What a number in place of an index simplifies, if the result is an integer.
_INDEXING = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod, tirx.Cast)


def at_level(target: Any) -> Any | None:
    """Return the target with level 2; None if it says its level, or is not for the CPU."""
    config = dict(read_target(target).export())
    if config.get("kind") != "llvm" or LEVEL in config:
        return None
    return tvm.target.Target({**config, LEVEL: 2})


def is_plain(func: Any) -> bool:
    """Return whether a function divides no integers and casts to none, as of an index."""
    folded: list[Any] = []

    def keep(node: Any) -> None:
        if "int" in str(node.ty.dtype):
            folded.append(node)

    if isinstance(func, tirx.PrimFunc):
        tvm_ffi.structural_walk(func.body, (_INDEXING, keep))
    return not folded
