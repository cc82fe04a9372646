"""Time models compiled with measured costs against the same compiled with estimates.

    python -m benchmarks.byoc_measure [--backend onednn,blas] [--database FILE] [MODEL ...]

`planned` uses the backends' estimates, at a higher priority than TVM's own code; `measured` uses
timings, at the same priority as TVM's code. Each time is the median wall time of a call, in turns,
on one thread; `seconds` is the time spent measuring, `again` the same with the database filled.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.backends.vm_call import call, first
from benchmarks.common.full_models import onnx_model
from benchmarks.common.resources import in_turns, use_threads
from benchmarks.common.rows import model_parser, store_row


@dataclass(frozen=True)
class Row:
    """Milliseconds of a call, and seconds of compiling."""

    model: str
    planned: float
    measured: float
    outputs: float
    candidates: int
    excluded: int
    seconds: float
    again: float
    summary: str

    def as_line(self) -> str:
        ratio = self.measured / self.planned
        return (f"{self.model}: {self.measured:.2f} ms measured, {ratio:.2f} × planned; outputs "
                f"within {self.outputs:.1e}; {self.candidates} candidates, {self.excluded} "
                f"excluded, compiled in {self.seconds:.0f} s, again in {self.again:.0f} s; "
                f"{self.summary}")  # fmt: skip


def compare(name: str, backends: Sequence[str], database: Path) -> Row:
    import tvm

    from opinfo.byoc import Excluded, Measure
    from opinfo.byoc.compile import compile_module
    from opinfo.frontend.formats.from_onnx import from_model

    model, values = onnx_model(name)
    mod = from_model(model, {})
    tensors = [tvm.runtime.tensor(v) for v in values.values()]
    plain = compile_module(mod, backends)
    start = time.perf_counter()
    best = compile_module(mod, backends, measure=Measure(database))
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    compile_module(mod, backends, measure=Measure(database))
    seconds_again = time.perf_counter() - start
    calls = [call(c.machine(), tensors) for c in (plain, best)]
    expected, actual = (first(c()) for c in calls)
    difference = float(np.abs(expected - actual).max() / max(np.abs(expected).max(), 1e-30))
    times = in_turns(calls)
    timings = best.dispatched.timings
    bad = sum(isinstance(t.result, Excluded) for t in timings)
    return Row(name, times[0], times[1], difference, len(timings), bad, seconds, seconds_again,
               best.dispatched.summary())  # fmt: skip


def main() -> int:
    parser = model_parser("benchmarks.byoc_measure", __doc__, ["squeezenet"])
    parser.add_argument("--backend", default="onednn,blas")
    parser.add_argument("--database", metavar="FILE", type=Path)
    options = parser.parse_args()
    use_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        database = options.database or Path(folder) / "times.jsonl"
        for name in options.model:
            row = compare(name, options.backend.split(","), database)
            print(row.as_line(), flush=True)
            store_row(options.json, row, "model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
