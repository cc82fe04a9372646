"""A bench that builds nothing, and shapes to tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from opinfo.byoc.measure import Excluded, Measure, Measured
from opinfo.jit.tune.record import Recording

from ..kernels import product

LLVM = tvm.target.Target("llvm")


def recording(*shapes: tuple[int, int]) -> Recording:
    """Shapes of one function, with their calls."""
    out = Recording()
    out.define("f", tvm.ir.save_json(product(None, 16, 16)))
    for n, calls in shapes:
        out.add("site", "f", {"n": n}, calls)
    return out


class Bench:
    """Nothing is built: the first candidate is slow, each later one faster; ``wrong`` fail."""

    wrong = 0
    asked: list[int]
    turns: tuple[float, ...] = (3.0, 7.0)

    def __init__(self, how: Measure) -> None:
        self.count = 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def case(self, mod: Any, buffers: Any) -> Path:
        return Path()

    def measure(self, mods: Any, target: Any, case: Path) -> list[Measured | Excluded]:
        Bench.asked.append(len(mods))
        out: list[Measured | Excluded] = []
        for _ in mods:
            self.count += 1
            out.append(Excluded("it is wrong") if self.count <= self.wrong else
                       Measured(1000.0 / self.count))  # fmt: skip
        return out

    def in_turns(self, mods: Any, target: Any, case: Path) -> list[Measured | Excluded]:
        assert len(mods) == 2
        return [Measured(t) for t in self.turns]
