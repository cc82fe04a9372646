"""Time models compiled for oneDNN against ONNX Runtime, `torch.compile` and TVM's default.

    python -m benchmarks.byoc [--threads N] [--no-default] [--json FILE] [--page [FILE]] [MODEL ...]

Each figure is the median wall time of a call. The calls take turns, so that other load on the
machine meets all of them, each after a pause, so that no one meets another's spinning threads.
Ratios are oneDNN's time over the other's: ONNX Runtime, `torch.compile` (inductor's default mode,
for torch modules), TVM's default build, and oneDNN without planned layouts. `outputs` compares with
ONNX Runtime, relative to the largest value. Compile time is CPU time, the C++ compiler included.
The models are those of `benchmarks.common.full_models`. `--json` stores rows by model and threads,
so that a table can be measured in pieces; `--page` writes all stored rows.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.backends.byoc.byoc_page import Row
from benchmarks.backends.vm_call import call, first
from benchmarks.common.full_models import MODELS, onnx_model, torch_model
from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import Call, in_turns, use_threads
from benchmarks.common.rows import model_parser, store_row, stored_rows


def measure(name: str, threads: int, default: bool, rounds: int = 9) -> Row:
    import tvm

    from opinfo.byoc.compile import compile_module
    from opinfo.frontend.formats.from_onnx import from_model

    model, values = onnx_model(name)
    mod = from_model(model, {})
    start = _cpu()
    compiled = compile_module(mod, ["onednn"])
    seconds = _cpu() - start
    plain = compile_module(mod, ["onednn"], plan=False)
    tensors = [tvm.runtime.tensor(v) for v in values.values()]
    calls = {
        "onednn": call(compiled.machine(), tensors),
        "unplanned": call(plain.machine(), tensors),
        "onnx_runtime": onnx_runtime(model, values, threads),
        "torch_compile": torch_compile(name, threads),
        "default": tvm_default(mod, tensors) if default else None,
    }
    present = {key: c for key, c in calls.items() if c is not None}
    ours, theirs = (first(present[key]()) for key in ("onednn", "onnx_runtime"))
    difference = float(np.abs(theirs - ours).max() / max(np.abs(theirs).max(), 1e-30))
    times = dict(zip(present, in_turns(list(present.values()), rounds), strict=True))
    return Row(name, threads, compiled.dispatched.summary(), times["onednn"], times["unplanned"],
               times["onnx_runtime"], times.get("torch_compile"), times.get("default"), difference,
               seconds)  # fmt: skip


def onnx_runtime(model: Any, values: dict[str, Any], threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])  # fmt: skip
    return lambda: session.run(None, values)


def torch_compile(name: str, threads: int) -> Call | None:
    """Compile with torch and warm up; None if the model is not a torch module."""
    model = torch_model(name)
    if model is None:
        return None
    import torch

    torch.set_num_threads(threads)
    compiled, sample = torch.compile(model[0]), model[1]

    def call() -> Any:
        with torch.inference_mode():
            return compiled(**sample)

    call()
    return call


def tvm_default(mod: Any, tensors: Sequence[Any]) -> Call:
    import tvm

    from opinfo.byoc.building.build_library import build_library
    from opinfo.byoc.dispatching.dispatch import dispatch

    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        build_library(dispatch(tvm.relax.transform.LegalizeOps()(mod), []), library)
        machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return call(machine, tensors)


def _cpu() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    return sum(os.times()[:4])


def main() -> int:
    parser = model_parser("benchmarks.byoc", __doc__, MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-default", action="store_true", help="leave out TVM's default build")
    add_page_option(parser, "speed.md")
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json")
    use_threads(options.threads)
    warnings.simplefilter("ignore")
    for name in options.model:
        row = measure(name, options.threads, not options.no_default, options.rounds)
        print(row.as_line(), flush=True)
        store_row(options.json, row, "model", "threads")
    if options.page:
        from benchmarks.backends.byoc.byoc_page import page

        rows = [Row(**r) for r in stored_rows(options.json)]
        options.page.write_text(page(rows, MODELS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
