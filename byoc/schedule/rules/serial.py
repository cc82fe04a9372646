"""The fallback for kernels that every other rule refuses: serial loops."""

from __future__ import annotations

from typing import Any

from ....analysis import Refusal
from ...codegen.vector_units import VectorUnits
from ..loops.loop_nest import LoopNest
from ..loops.tile import Tile
from ..nest.kernel import Kernel
from . import SERIAL, rule


@rule(SERIAL, precedence=90)
def serial(kernel: Kernel, machine: VectorUnits) -> Any | Refusal:
    return LoopNest(kernel, machine, Tile(1, 1, 1), kernel.axes, None, None)()
