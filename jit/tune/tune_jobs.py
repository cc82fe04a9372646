"""Jobs of tuning in separate processes: build, run, check and time a kernel."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from ...byoc.measure.compare import Array, difference, drawn
from ...byoc.measure.measure_jobs import CALLED, TIMED, OnServer
from ...byoc.measure.measured import Excluded, Measured
from ...byoc.measure.subject import Buffer
from ...byoc.patterns.failure import one_line

#: The name of the kernel in its library.
ENTRY = "main"


@dataclass(frozen=True)
class BuildKernel:
    """Compile a module with the PrimFunc ``main`` to ``library``."""

    module: str
    target: str
    library: str

    def run(self) -> str | None:
        """Return None, or why the build fails."""
        try:
            mod = tvm.ir.load_json(self.module)
            tvm.tirx.build(mod, target=tvm.target.Target(self.target)).export_library(self.library)
        except Exception as error:  # lowering, LLVM or the linker
            return one_line(error)
        return None


@dataclass(frozen=True)
class RunKernel:
    """Run a kernel and save its buffers before and after.

    All buffers are seeded and compared, so it does not matter which of them are results.
    """

    library: str
    buffers: tuple[Buffer, ...]
    case: str

    def run(self) -> str | None:
        """Return None, or why the run fails."""
        try:
            inputs = drawn(self.buffers)
            arrays = [tvm.runtime.tensor(a) for a in inputs]
            tvm.runtime.load_module(self.library)[ENTRY](*arrays)
            after = [a.numpy() for a in arrays]
        except Exception as error:
            return one_line(error)
        Path(self.case).write_bytes(pickle.dumps((inputs, after), pickle.HIGHEST_PROTOCOL))
        return None


@dataclass(frozen=True)
class TimeKernel(OnServer):
    """Time a library's kernel on the inputs of its case."""

    def timed(
        self, module: Any, device: Any, inputs: Sequence[Array], expected: Sequence[Array] | None,
        stage: list[str],
    ) -> Measured | Excluded:  # fmt: skip
        arrays = [tvm.runtime.tensor(a, device=device) for a in inputs]
        stage.append(CALLED)
        module[ENTRY](*arrays)
        outputs: list[Array] = [a.numpy() for a in arrays]
        mismatch = None if expected is None else difference(outputs, expected)
        if mismatch is not None:
            return Excluded(mismatch)
        stage.append(TIMED)
        return self.median(lambda **how: module.time_evaluator(ENTRY, device, **how)(*arrays))
