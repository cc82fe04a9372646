"""Single regions of models on a GPU, against torch: convolutions, products, attention.

    python -m benchmarks.gpu_regions [--only PART ...] [--json FILE] [--page] [--kernels]

All cases are built into one library by `cudnn`, `cublaslt` and opinfo's own kernels, as in a model:
weights are constants. Both sides are timed as CUDA graphs of many calls, in turns; torch has
`cudnn.benchmark`, no tf32, channels last where the case has it, and the fastest of its ways. Rows
are added to those in FILE. `--kernels` prints what each side launches.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax

from benchmarks.backends.nvidia import anywhere, library
from benchmarks.backends.nvidia_run import LAST, channels_last, transposed
from benchmarks.gpu.kernel_profile import profile
from benchmarks.gpu.nvidia_attention import TORCH, apart, attention_in_torch
from benchmarks.gpu.paired_times import PLACES, median_of, ratio_of, times_of
from opinfo.byoc.dispatching.dispatch import Dispatched, dispatch
from opinfo.byoc.prepare.prepare import prepare

from .region_cases import RegionCase, cases
from .regions_page import CLOSE, write

#: The largest difference to accept, relative to a result's largest value.
TOLERANCE = {"float16": 2e-3, "float32": 1e-5}


def built(chosen: Sequence[RegionCase], folder: Path) -> tuple[Any, Dispatched]:
    """The virtual machine of all cases, ``case0`` and so on, and how they were dispatched."""
    builder = relax.BlockBuilder()
    for number, case in enumerate(chosen):
        arrays = [a.astype(case.dtype) for a in case.arrays()]
        inputs = [relax.Var(f"x{k}", relax.TensorType(s, case.dtype))
                  for k, s in enumerate(case.shapes[: case.inputs])]  # fmt: skip
        weights = [relax.const(a) for a in arrays[case.inputs :]]
        with builder.function(f"case{number}", inputs):
            with builder.dataflow():
                out = builder.emit_output(case.build(builder.emit, *inputs, *weights))
            builder.emit_func_output(out)
    backends = [anywhere("cudnn"), anywhere("cublaslt")]
    dispatched = dispatch(prepare(builder.get(), backends), backends)
    path = folder / "regions.so"
    gpu = tvm.cuda(0)
    arch = "sm_" + gpu.compute_version.replace(".", "") if gpu.exist else "sm_90"
    # The calls are captured as a whole, which must not contain a capture.
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": False}):
        library(dispatched, path, arch)
    if not gpu.exist:
        return None, dispatched
    return relax.VirtualMachine(tvm.runtime.load_module(str(path)), gpu), dispatched


def row_of(case: RegionCase, main: Callable[..., Any], kernels: bool = False) -> dict[str, Any]:
    """Run, compare and time a case; with ``kernels``, name what is launched."""
    dtype = TORCH.get(case.dtype, torch.float32)
    tensors = [torch.from_numpy(a).cuda().to(dtype) for a in case.arrays()]
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
        expected, _ = _in_torch(case, tensors)
    places = [[t.clone() for t in tensors] for _ in range(PLACES)]
    inputs = [[tvm.runtime.from_dlpack(t) for t in ts[: case.inputs]] for ts in places]
    right = apart(torch.from_dlpack(main(*inputs[0])), expected)
    theirs = [list(calls) for calls in zip(*(_in_torch(case, ts)[1] for ts in places), strict=True)]
    ways = [[_Elsewhere(main, values) for values in inputs], *theirs]
    times = times_of(ways)
    medians = [median_of(t) for t in times]
    best = min(range(1, len(ways)), key=medians.__getitem__)
    ratio = ratio_of(times[0], times[best])
    close = kernels or ratio.high > CLOSE
    launched = [profile(ways[k][0], calls=3).kernels for k in (0, best) if close]
    row = {"apart": right, "right": right <= TOLERANCE[case.dtype], "us": medians[0],
           "torch_us": medians[best], "ratio": ratio.value, "interval": [ratio.low, ratio.high],
           "verdict": ratio.verdict, "torch_ways": medians[1:],
           "same": bool(launched) and _names(launched[0]) == _names(launched[1])}  # fmt: skip
    return row | ({"kernels": launched} if kernels else {})


class _Elsewhere:
    """Calls of a function whose results are in other memory than those of other such calls.

    The first result stays alive: the next ones are in memory that no other calls get.
    """

    def __init__(self, main: Callable[..., Any], values: Sequence[Any]) -> None:
        self.main, self.values, self.kept = main, values, None

    def __call__(self) -> Any:
        out = self.main(*self.values)
        if self.kept is None:
            self.kept = out
        return out


def _names(kernels: Sequence[tuple[str, float, float]]) -> list[tuple[str, float]]:
    return sorted((name, number) for name, number, _ in kernels)


def _in_torch(case: RegionCase, tensors: Sequence[Any]) -> tuple[Any, list[Callable[[], Any]]]:
    """The result in a wider type, and torch's ways to compute it."""
    if case.kind == "attention":
        expected, ways = attention_in_torch(tensors[0], **case.options)
        return expected, list(ways.values())
    wide = [t.float() for t in tensors]
    if case.kind == "product":
        x, *residual, w, bias = tensors
        turned = w.t().contiguous().t()  # as torch keeps the weights of a linear layer
        return (_product(wide[0], wide[-2], wide[-1], wide[1:-2]),
                [lambda m=m: _product(x, m, bias, residual) for m in (w, turned)])  # fmt: skip
    if case.kind == "transposed":
        return transposed(*wide), [lambda: transposed(*tensors)]
    order = (0, 2, 3, 1) if case.kind == "residual" else tuple(range(len(tensors)))
    operands, exact = (channels_last(*(ts[k] for k in order)) for ts in (tensors, wide))
    function = LAST[case.kind]
    return function(*exact).permute(0, 2, 3, 1), [lambda: function(*operands)]


def _product(x: Any, w: Any, bias: Any, residual: Sequence[Any]) -> Any:
    y = torch.addmm(bias, x, w)
    return y.add_(residual[0]) if residual else y


def _line(name: str, row: dict[str, Any]) -> str:
    """What is printed of a case: its times, then the kernels of each side."""
    if "error" in row:
        return f"{name}: {row['error']}"
    ways = " ".join(f"{us:.1f}" for us in row["torch_ways"])
    low, high = row["interval"]
    lines = [f"{name}: {row['us']:.1f} us, torch {ways}, ratio {row['ratio']:.3f} "
             f"[{low:.3f}, {high:.3f}] {row['verdict']}, same kernels {row['same']}, "
             f"apart {row['apart']:.0e}{'' if row['right'] else ' WRONG'}"]  # fmt: skip
    for side, kernels in enumerate(row.get("kernels", [])):
        lines += [f"    {side} {us:8.1f} us  {k[:110]}" for k, _, us in kernels[:6]]
    return "\n".join(lines)


def main() -> int:
    """Build and time all cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_regions")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, as printed")
    parser.add_argument("--json", type=Path, help="where rows are kept")
    parser.add_argument("--page", action="store_true", help="write docs/results/gpu-regions.md")
    parser.add_argument("--kernels", action="store_true", help="name what is launched")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    # There are more convolutions than in a model: all of them are to be timed.
    os.environ.setdefault("OPINFO_CUDNN_SECONDS", "90")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    every = {f"{c.kind} {c.name} {c.dtype}": c for c in cases()}
    names = [n for n in every if not options.only or any(o in n for o in options.only)]
    kept: dict[str, Any] = {}
    if options.json is not None and options.json.exists():
        kept = json.loads(options.json.read_text())
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        machine, dispatched = built([every[n] for n in names], Path(folder))
        taken = dispatched.summary().partition("\n")[0]
        print(f"built in {time.perf_counter() - begun:.0f} s; {taken}", flush=True)
        if machine is None:
            print("no GPU: not run")
            return 1
        stream = torch.cuda.current_stream()
        for number, name in enumerate(names):
            try:
                with tvm_ffi.use_torch_stream(torch.cuda.stream(stream)), torch.no_grad():
                    kept[name] = row_of(every[name], machine[f"case{number}"], options.kernels)
            except Exception as error:  # reported; the other cases continue
                kept[name] = {"error": f"{type(error).__name__}: {error}"[:600]}
                traceback.print_exc(limit=4)
            print(_line(name, kept[name]), flush=True)
    print(f"{time.perf_counter() - begun:.0f} s")
    if options.json is not None:
        options.json.write_text(json.dumps(kept, indent=1))
    if options.page:
        print(f"written: {write([every[n] for n in kept], list(kept.values()))}")
    rows = [kept[n] for n in names]
    return int(not all(r.get("right", False) for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())
