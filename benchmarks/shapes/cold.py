"""Time streams of shapes from the first request on, against ONNX Runtime, on one thread.

    python -m benchmarks.shapes.cold [--json FILE] [--page [FILE]] [MODEL ...]

Each model gets a new session with `jit` and a new session of ONNX Runtime, which takes the whole
graph in TVM's virtual machine. Both answer the same 50 requests in turns (`first`), and again when
the kernels are there (`steady`, the median of rounds). Figures are CPU seconds of the calling
thread, so that the compiler process, whose CPU time is given apart, and other load do not count.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import symbolic_models
from benchmarks.common.pages import table
from benchmarks.common.rows import measure_models
from benchmarks.shapes.stream import parse_options
from benchmarks.zoo.results_page import cpu_name

Size = tuple[int, ...]
Call = Callable[[Size], Any]
REQUESTS, ROUNDS = 50, 7


@dataclass(frozen=True)
class Row:
    """Seconds of 50 requests by implementation, the kernels, and the compiler's CPU seconds.

    ``load`` is the machine's load average before the requests: about 1 where nothing else runs.
    """

    model: str
    first: Mapping[str, float]
    steady: Mapping[str, float]
    kernels: Mapping[str, int]
    compiling: float
    outputs: float
    cpu: str
    load: float

    @property
    def ratios(self) -> tuple[float, float]:
        """Time relative to ONNX Runtime's: of the first requests, and of later ones."""
        first, steady = (t["opinfo"] / t["ONNX Runtime"] for t in (self.first, self.steady))
        return first, steady

    def as_line(self) -> str:
        first, steady = self.ratios
        return (f"{self.model}: first {len(symbolic_models.stream(self.model, REQUESTS))} requests "
                f"{first:.2f} x ONNX Runtime, steady {steady:.2f} x; {dict(self.kernels)}, "
                f"{self.compiling:.1f} s of CPU for kernels; "
                f"outputs within {self.outputs:.0e}")  # fmt: skip


def measure(name: str) -> Row:
    import tvm

    from opinfo.byoc.compile import compile_module
    from opinfo.jit import Session, compile_shapes

    mod, stream = symbolic_models.module(name), symbolic_models.stream(name, REQUESTS)
    tensors = {s: [tvm.runtime.tensor(a) for a in symbolic_models.inputs_of(name, s)]
               for s in set(stream)}  # fmt: skip
    library = compile_shapes(mod, "jit")
    onnxruntime = compile_module(mod, ["onnxruntime"], plan=False).machine()["main"]
    before, load = _children(), os.getloadavg()[0]
    with Session(library) as session:
        calls: dict[str, Call] = {
            "opinfo": lambda s: session(*tensors[s]),
            "ONNX Runtime": lambda s: onnxruntime(*tensors[s]),
        }
        first = _stream(calls, stream)
        session.settle(600)
        for size in stream:  # shapes that occurred once
            session(*tensors[size])
        settled = session.settle(600)
        if not settled:
            raise RuntimeError(f"{name}: {settled}")
        steady = _median([_stream(calls, stream) for _ in range(ROUNDS)])
        worst = max(_difference(calls, s) for s in tensors)
        rules = [e.rule == "generic" for e in session.stats().events if e.what == "compiled"]
        failed = session.stats().counts.get("failed", 0)
    kernels = {"special": rules.count(False), "generic": rules.count(True), "failed": failed}
    return Row(name, first, steady, kernels, _children() - before, worst, cpu_name(),
               load)  # fmt: skip


def _children() -> float:
    """Return the CPU seconds of the processes that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _stream(calls: Mapping[str, Call], stream: Sequence[Size]) -> dict[str, float]:
    """Return the CPU seconds of each implementation for the requests, answered in turns."""
    seconds = dict.fromkeys(calls, 0.0)
    for size in stream:
        for name, call in calls.items():
            start = time.thread_time()
            call(size)
            seconds[name] += time.thread_time() - start
    return seconds


def _median(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def _difference(calls: Mapping[str, Call], size: Size) -> float:
    """Return the largest difference of the outputs, relative to the largest value."""
    ours, theirs = (_array(call(size)) for call in calls.values())
    return float(np.abs(ours - theirs).max() / max(float(np.abs(theirs).max()), 1e-30))


def _array(result: Any) -> Any:
    return result.numpy() if hasattr(result, "numpy") else _array(result[0])


HEAD = """Written by `python -m benchmarks.shapes.cold --json FILE --page`: the time of 50 requests
of varying shape, divided by ONNX Runtime's for the same requests in turns (below 1: faster than
ONNX Runtime). **first** are the first 50 requests of a new session with `jit`, while its kernels
are compiled; **steady** are later ones. One thread, CPU time of the calling thread. **special** is
the number of kernels for a shape, **generic** of shapes that the generic kernel serves as fast, and
**compiling** the CPU seconds of the compiler process. Models:
`benchmarks/common/symbolic_models.py`."""


def page(rows: Sequence[Row]) -> str:
    """Return the page in Markdown."""
    columns = ("model", "first", "steady", "special", "generic", "compiling, s", "outputs within")
    lines = [(r.model, *(f"{x:.2f}" for x in r.ratios), str(r.kernels["special"]),
              str(r.kernels["generic"]), f"{r.compiling:.1f}", f"{r.outputs:.0e}")
             for r in rows]  # fmt: skip
    means = (statistics.geometric_mean(r.ratios[k] for r in rows) for k in (0, 1))
    lines.append(("**geometric mean**", *(f"{m:.2f}" for m in means), "", "", "", ""))
    cpus, load = sorted({r.cpu for r in rows}), max(r.load for r in rows)
    title = f"# First requests of symbolic models: {', '.join(cpus)}"
    text = f"{HEAD} The load average was at most {load:.1f}."
    return f"{title}\n\n{text}\n\n{table(columns, lines)}\n"


def main() -> int:
    options = parse_options("benchmarks.shapes.cold", __doc__, symbolic_models.NAMES,
                            "shapes-cold.md")  # fmt: skip
    measure_models(options, measure, Row, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
