"""Models compiled with oneDNN against TVM's default build and ONNX Runtime, one thread, one run.

    python -m benchmarks.byoc [--threads N] [--no-default] [--json FILE] [MODEL ...]

Each number is the median of the wall time of a call, taken in turns so that what else runs on the
machine meets all of them; the ratios are oneDNN's time over the other's. `outputs` compares with
ONNX Runtime, relative to the largest value. The models are the CNNs of the onnx wheel with seeded
weights, and `torch:NAME` those of `benchmarks.layouts` at 224x224, exported by torch. What
compiling costs is the CPU time of this process and of the C++ compiler.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """Milliseconds of a call; None where it was not measured."""

    model: str
    summary: str
    onednn: float
    unplanned: float
    onnx_runtime: float
    default: float | None
    outputs: float
    seconds: float

    def told(self) -> str:
        default = f", {self.onednn / self.default:.3f} × TVM default" if self.default else ""
        return (f"{self.model}: {self.onednn:.2f} ms, {self.onednn / self.onnx_runtime:.2f} × ONNX "
                f"Runtime, {self.onednn / self.unplanned:.2f} × without planning{default}; outputs "
                f"within {self.outputs:.1e}; compiled in {self.seconds:.0f} s; "
                f"{self.summary}")  # fmt: skip


def measure(name: str, threads: int, default: bool) -> Row:
    import onnxruntime
    import tvm

    from opinfo.byoc.compile import build, compile_module
    from opinfo.byoc.offload import dispatch
    from opinfo.frontend.from_onnx import from_model

    model, values = onnx_model(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])  # fmt: skip
    mod = from_model(model, {})
    start = _cpu()
    found = compile_module(mod, ["onednn"])
    seconds = _cpu() - start
    plain = compile_module(mod, ["onednn"], plan=False)
    given = [tvm.runtime.tensor(v) for v in values.values()]
    calls: list[Callable[[], Any]] = [
        lambda: session.run(None, values),
        *(call(c.machine(), given) for c in (found, plain)),
    ]
    if default:
        folder = tempfile.TemporaryDirectory()
        library = Path(folder.name) / "model.so"
        build(dispatch(tvm.relax.transform.LegalizeOps()(mod), []), library)
        calls.append(call(tvm.relax.VirtualMachine(
            tvm.runtime.load_module(str(library)), tvm.cpu()), given))  # fmt: skip
    expected, result = calls[0]()[0], first(calls[1]())
    apart = float(np.abs(expected - result).max() / max(np.abs(expected).max(), 1e-30))
    times = in_turns(calls)
    return Row(name, found.dispatched.summary(), times[1], times[2], times[0],
               times[3] if default else None, apart, seconds)  # fmt: skip


def _cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    return sum(os.times()[:4])


def call(machine: Any, given: Sequence[Any]) -> Callable[[], Any]:
    main = machine["main"]
    return lambda: main(*given)


def first(result: Any) -> Any:
    """The first output as an array."""
    return result.numpy() if hasattr(result, "numpy") else first(result[0])


def in_turns(calls: Sequence[Callable[[], Any]], rounds: int = 9) -> list[float]:
    """Median milliseconds of each; a slow call is made less often."""
    times: list[list[float]] = [[] for _ in calls]
    for k in range(rounds):
        for call, kept in zip(calls, times, strict=True):
            if k > 2 and statistics.median(kept) > 2000:
                continue
            start = time.perf_counter()
            call()
            kept.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(t[1:]) for t in times]


def onnx_model(name: str) -> tuple[Any, dict[str, Any]]:
    """A model with its weights in it, and seeded inputs by name."""
    if name.startswith("torch:"):
        return _from_torch(name.removeprefix("torch:"))
    import onnx
    from onnx import numpy_helper

    from tests import models
    from tests.models import light

    model = onnx.load(light.path(name))
    weights = models.weights(name)
    fills = [n for n in model.graph.node if n.op_type == "ConstantOfShape"]
    for fill, array in zip(fills, weights, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(array, fill.output[0]))
        model.graph.node.remove(fill)
    known = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in known]
    return model, dict(zip(names, models.inputs(name), strict=True))


def _from_torch(name: str, size: int = 224) -> tuple[Any, dict[str, Any]]:
    """A convolutional net of `benchmarks.layouts`."""
    import onnx
    import torch

    from benchmarks.layouts import models

    net, sample = models.torch_model(name, size)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(net, (), str(path), kwargs=sample, dynamo=False, opset_version=18)
        model = onnx.load(path)
    (given,) = model.graph.input
    return model, {given.name: models.inputs(name, size=size)[0]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.byoc", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", default=["squeezenet", "shufflenet", "resnet50",
                                                     "inception_v1", "densenet121"])  # fmt: skip
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-default", action="store_true", help="leave out TVM's default build")
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model:
        rows.append(measure(name, options.threads, not options.no_default))
        print(rows[-1].told(), flush=True)
    if options.json:
        from benchmarks.measure import write

        write(options.json, [asdict(r) for r in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
