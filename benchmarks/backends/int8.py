"""Time quantised models on oneDNN against float32 and ONNX Runtime.

    python -m benchmarks.int8 [--threads N] [--json FILE] [MODEL ...]

ONNX Runtime quantises each model statically (QDQ, int8 weights by channel, uint8 activations) on
seeded images. A time is the median wall time of a call, in turns. `f32` is oneDNN on the original
model; `apart` the largest difference to TVM's own build of the quantised model, relative to the
largest value (halves are rounded at other steps). The models are those of
`benchmarks.common.full_models`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.backends.vm_call import call, first
from benchmarks.common.full_models import onnx_model
from benchmarks.common.resources import in_turns

MODELS = ("resnet50", "squeezenet", "torch:mobilenet_v2", "torch:resnet18")


@dataclass(frozen=True)
class Row:
    """Milliseconds of a call, and the number of regions of each pattern."""

    model: str
    int8: float
    float32: float
    onnx_runtime: float
    apart: float
    regions: Mapping[str, int]
    summary: str

    def as_line(self) -> str:
        counts = ", ".join(f"{n} {name}" for name, n in self.regions.items())
        return (f"{self.model}: {self.int8:.2f} ms, {self.int8 / self.float32:.2f} × f32, "
                f"{self.int8 / self.onnx_runtime:.2f} × ONNX Runtime; apart {self.apart:.1e}; "
                f"{counts}; {self.summary}")  # fmt: skip


def measure(name: str, threads: int) -> Row:
    import onnxruntime
    import tvm

    from opinfo.byoc.compile import compile_module
    from opinfo.frontend.formats.from_onnx import from_model

    plain, values = onnx_model(name)
    small = quantized(plain, values)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(small.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])  # fmt: skip
    compiled, before = (compile_module(from_model(m, {}), ["onednn"]) for m in (small, plain))
    tensors = [tvm.runtime.tensor(v) for v in values.values()]
    reference = tvm.compile(from_model(small, {}), target="llvm")
    expected = first(tvm.relax.VirtualMachine(reference, tvm.cpu())["main"](*tensors))
    ours = call(compiled.machine(), tensors)
    difference = float(np.abs(first(ours()) - expected).max() / np.abs(expected).max())
    times = in_turns([ours, call(before.machine(), tensors), lambda: session.run(None, values)])
    regions = Counter(t.pattern for t in compiled.dispatched.taken)
    int8, f32, runtime = times
    return Row(name, int8, f32, runtime, difference, dict(regions), compiled.dispatched.summary())


def quantized(model: Any, values: Mapping[str, Any]) -> Any:
    """Quantise a model with ONNX Runtime, calibrated on ``values``."""
    import onnx
    from onnxruntime import quantization

    class Pictures(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.values: Iterator[Any] = iter([values] * 2)

        def get_next(self) -> Any:
            return next(self.values, None)

    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "model.onnx", Path(folder) / "small.onnx"
        onnx.save(_now(model), source)
        quantization.quantize_static(str(source), str(out), Pictures(), per_channel=True,
                          weight_type=quantization.QuantType.QInt8)  # fmt: skip
        return onnx.load(out)


def _now(model: Any) -> Any:
    """Convert a model to opset 17, the first with scales per channel, and infer all shapes."""
    import onnx
    from onnx import helper

    if model.opset_import[0].version < 17:
        names = {i.name for i in model.graph.input}
        model.graph.input.extend(  # old IR versions require initializers among the inputs
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in model.graph.initializer if tensor.name not in names
        )  # fmt: skip
        model = onnx.version_converter.convert_version(model, 17)
    return onnx.shape_inference.infer_shapes(model)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.int8", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", default=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model:
        rows.append(measure(name, options.threads))
        print(rows[-1].as_line(), flush=True)
    if options.json:
        from benchmarks.common.rows import write

        write(options.json, [asdict(r) for r in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
