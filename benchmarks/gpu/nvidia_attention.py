"""Attention by cuDNN and products of transformers by cuBLASLt on a GPU, against torch.

    python -m benchmarks.nvidia_attention [--only PART ...] [--json FILE]

`cases`: the graphs of `tests.byoc.attention.nvidia_attention_cases` against float64. `attention`:
heads that are views of one tensor, against `scaled_dot_product_attention` with the backend that is
fastest. `product`: a product of halves with bias, and perhaps a residual, against `torch.addmm`.
Both sides are timed as CUDA graphs of many calls, in turns. A line that fails says why; the others
go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from tvm import relax

from benchmarks.backends.nvidia import anywhere, input_order, library
from benchmarks.gpu.attention_graphs import attention_graph, mask_of
from benchmarks.gpu.paired_times import captured, milliseconds
from opinfo.byoc.dispatching.dispatch import Dispatched, dispatch
from opinfo.byoc.prepare.prepare import prepare
from tests.byoc.attention.nvidia_attention_cases import CASES

op = relax.op
TORCH = {"float16": torch.float16, "bfloat16": torch.bfloat16, "bool": torch.bool}
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2}
CALLS, ROUNDS = 20, 9
_NUMBERS = itertools.count()


def module(build: Callable[..., Any], inputs: Sequence[tuple[tuple[int, ...], str]]) -> Any:
    given = [relax.Var(f"x{k}", relax.TensorType(s, d)) for k, (s, d) in enumerate(inputs)]
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, *given))
        builder.emit_func_output(out)
    return builder.get()


def built(mod: Any, backend: str, folder: Path, name: str) -> tuple[Any, Dispatched]:
    chosen = anywhere(backend)
    dispatched = dispatch(prepare(mod, [chosen]), [chosen])
    arch = "sm_" + tvm.cuda(0).compute_version.replace(".", "")
    path = folder / f"{name}{next(_NUMBERS)}.so"  # a loaded path is not loaded again
    library(dispatched, path, arch)
    return tvm.runtime.load_module(str(path)), dispatched


def region(mod: Any, folder: Path, name: str, backend: str) -> tuple[Any, list[int]]:
    """The function of the only region of a module, and the numbers of the inputs that it takes."""
    loaded, dispatched = built(mod, backend, folder, name)
    (taken,) = dispatched.taken
    function = loaded.get_function(taken.symbol, query_imports=True)
    return function, input_order(dispatched, taken.symbol)


def timed(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Median microseconds of a call, in turns."""
    replays = [captured(call, CALLS) for call in calls]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS + 1):
        for replay, kept in zip(replays, times, strict=True):
            kept.append(milliseconds(replay) / CALLS * 1e3)
    return [statistics.median(t[1:]) for t in times]


def apart(found: Any, expected: Any) -> float:
    a, b = (x.double().cpu().numpy() for x in (found, expected))
    if a.shape != b.shape or not np.isfinite(a).all():
        return float("nan")
    return float(np.abs(a - b).max() / np.abs(b).max())


def case(name: str, folder: Path) -> dict[str, Any]:
    one = CASES[name]
    inputs = [(s, "bool" if k in one.masks else one.dtype) for k, s in enumerate(one.shapes)]
    loaded, dispatched = built(module(one.build, inputs), "cudnn", folder, "case")
    given = one.inputs()
    machine = relax.VirtualMachine(loaded, tvm.cuda(0))
    found = machine["main"](*(tvm.runtime.tensor(a, tvm.cuda(0)) for a in given)).numpy()
    numbers = [a if a.dtype == bool else a.astype("float64") for a in given]
    d = apart(torch.from_numpy(found.astype("float64")), torch.from_numpy(one.reference(*numbers)))
    taken = [t.pattern for t in dispatched.taken]
    return {"apart": d, "right": d <= TOLERANCE[one.dtype], "taken": taken}


# --- Attention


def attention_in_torch(
    x: Any, b: int, h: int, kv: int, s: int, d: int, kind: str
) -> tuple[Any, dict[str, Callable[[], Any]]]:
    """The result in float64, and calls of torch's backends that take the same tensor, by name."""
    q, k, v = (t.view(b, s, -1, d).transpose(1, 2)
               for t in x.split([h * d, kv * d, kv * d], dim=1))  # fmt: skip
    how: dict[str, Any] = {"enable_gqa": kv != h}
    if kind == "causal":
        how["is_causal"] = True
    elif kind:
        how["attn_mask"] = torch.from_numpy(mask_of(kind, s)).to("cuda", x.dtype)
    wide = dict(how)
    if "attn_mask" in wide:
        wide["attn_mask"] = wide["attn_mask"].double()
    with sdpa_kernel(SDPBackend.MATH):
        expected = scaled_dot_product_attention(q.double(), k.double(), v.double(), **wide)
    calls: dict[str, Callable[[], Any]] = {}
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION,
                    SDPBackend.EFFICIENT_ATTENTION):  # fmt: skip

        def theirs(backend: Any = backend) -> Any:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, **how)

        try:
            theirs()
        except RuntimeError:
            continue
        calls[backend.name] = theirs
    return expected.transpose(1, 2).reshape(b * s, h * d), calls


def attention(
    folder: Path, dtype: str, b: int, h: int, kv: int, s: int, d: int, kind: str
) -> dict[str, Any]:
    width = (h + 2 * kv) * d
    graph = attention_graph(dtype, b, h, kv, s, d, kind)
    function, _ = region(module(graph, [((b * s, width), dtype)]), folder, "attention", "cudnn")
    x = torch.randn(b * s, width, device="cuda", dtype=TORCH[dtype])
    out = torch.empty(b * s, h * d, device="cuda", dtype=TORCH[dtype])
    expected, calls = attention_in_torch(x, b, h, kv, s, d, kind)
    function(x, out)
    torch.cuda.synchronize()
    right = apart(out, expected)
    row: dict[str, Any] = {"apart": right, "right": right <= TOLERANCE[dtype]}
    ours, *others = timed([lambda: function(x, out), *calls.values()])
    row |= {"us": ours, "torch_us": dict(zip(calls, others, strict=True))}
    return row | {"ratio": ours / min(others)} if others else row


# --- Products


def product(folder: Path, dtype: str, m: int, k: int, n: int, residual: bool) -> dict[str, Any]:
    def build(emit: Any, x: Any, w: Any, bias: Any, z: Any = None) -> Any:
        y = emit(op.matmul(x, w, out_dtype="float32"))
        y = emit(op.astype(emit(op.add(y, emit(op.astype(bias, "float32")))), dtype))
        if z is None:
            return y
        wide = [emit(op.astype(t, "float32")) for t in (y, z)]
        return emit(op.astype(emit(op.add(*wide)), dtype))

    shapes = [(m, k), (k, n), (n,), *[(m, n)] * residual]
    mod = module(build, [(s, dtype) for s in shapes])
    function, order = region(mod, folder, "product", "cublaslt")
    xs = [torch.randn(s, device="cuda").div(s[-1] ** 0.5).to(TORCH[dtype]) for s in shapes]
    out = torch.empty(m, n, device="cuda", dtype=TORCH[dtype])
    given = [*(xs[j] for j in order), out]
    function(*given)
    torch.cuda.synchronize()
    expected = xs[0].double() @ xs[1].double() + xs[2].double()
    right = apart(out, expected + xs[3].double() if residual else expected)
    turned = xs[1].t().contiguous().t()  # as torch keeps the weights of a linear layer

    def theirs(weights: Any) -> Any:
        y = torch.addmm(xs[2], xs[0], weights)
        return y.add_(xs[3]) if residual else y

    ours, plain, linear = timed([lambda: function(*given), lambda: theirs(xs[1]),
                                 lambda: theirs(turned)])  # fmt: skip
    return {"apart": right, "right": right <= TOLERANCE[dtype], "us": ours, "torch_us": plain,
            "linear_us": linear, "ratio": ours / min(plain, linear),
            "tflops": 2e-6 * m * k * n / ours}  # fmt: skip


def jobs(folder: Path) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for name in CASES:
        yield f"case {name}", lambda n=name: case(n, folder)
    for b in (1, 32):
        for s in (128, 197, 1024):
            for kind in ("", "causal", "mask"):
                yield (
                    f"attention b{b} h12 s{s} d64 {kind}".strip(),
                    lambda b=b, s=s, kind=kind: attention(
                        folder, "float16", b, 12, 12, s, 64, kind
                    ),
                )
    for b in (1, 4):
        for kind in ("", "causal"):
            yield (
                f"attention b{b} h32/8 s1024 d128 {kind}".strip(),
                lambda b=b, kind=kind: attention(folder, "float16", b, 32, 8, 1024, 128, kind),
            )
    yield ("attention b32 h12 s197 d64 bfloat16", lambda:
           attention(folder, "bfloat16", 32, 12, 12, 197, 64, ""))  # fmt: skip
    for rows in (128, 197, 32 * 128, 32 * 197):
        for k, n, residual in ((768, 2304, False), (768, 768, True), (768, 3072, False),
                               (3072, 768, True)):  # fmt: skip
            more = " residual" if residual else ""
            yield (
                f"product {rows}x{k}x{n}{more}",
                lambda m=rows, k=k, n=n, r=residual: product(folder, "float16", m, k, n, r),
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvidia_attention")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, as printed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    torch.manual_seed(0)
    report: dict[str, Any] = {"machine": {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version()}}  # fmt: skip
    print(report["machine"], flush=True)
    stream = torch.cuda.current_stream()
    with tempfile.TemporaryDirectory() as folder:
        for name, job in jobs(Path(folder)):
            if options.only and not any(part in name for part in options.only):
                continue
            try:
                with tvm_ffi.use_torch_stream(torch.cuda.stream(stream)):
                    report[name] = job()
            except Exception as error:  # reported; the other jobs continue
                report[name] = {"error": f"{type(error).__name__}: {error}"[:600]}
                traceback.print_exc(limit=4)
            print(f"{name}: {report[name]}", flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(report, indent=1))
    rows = [r for r in report.values() if "right" in r or "error" in r]
    return int(not all(r.get("right", False) for r in rows))


if __name__ == "__main__":
    sys.exit(main())
