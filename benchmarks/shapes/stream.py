"""Time a stream of 50 shapes against TVM, `torch.compile` and ONNX Runtime, on one thread.

    python -m benchmarks.shapes.stream [--json FILE] [--page [FILE]] [MODEL ...]

For each size of the stream: opinfo with `jit` once its kernels are there, TVM's default symbolic
build, opinfo's own symbolic schedules (`generic`), a static build for that size by the same
schedules, `torch.compile(dynamic=True)`, and ONNX Runtime on the same graph. Figures are the sum
over the stream of the medians of calls taken in turns, as ratios to `jit`: 2 is half as fast.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import symbolic_models
from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import use_threads
from benchmarks.common.rows import measure_models, model_parser

Size = tuple[int, ...]
Call = Callable[[Size], Any]
ROUNDS = 9
#: Milliseconds of one timing; short calls are repeated.
LONG = 5.0


@dataclass(frozen=True)
class Row:
    """Milliseconds of the whole stream by implementation; largest relative difference to `jit`."""

    model: str
    sizes: tuple[Size, ...]
    milliseconds: Mapping[str, float]
    outputs: float
    hit_rate: float

    def as_line(self) -> str:
        ours = self.milliseconds["jit"]
        others = ", ".join(f"{name} {t / ours:.3g} x" for name, t in self.milliseconds.items()
                         if name != "jit")  # fmt: skip
        return (f"{self.model}: {len(self.sizes)} shapes in {ours:.2f} ms; {others}; "
                f"outputs within {self.outputs:.1e}; "
                f"{self.hit_rate:.0%} by special kernels")  # fmt: skip


def measure(name: str) -> Row:
    import tvm

    from opinfo.jit import Session, compile_shapes

    mod = symbolic_models.module(name)
    sizes = symbolic_models.stream(name)
    tensors = {n: [tvm.runtime.tensor(a) for a in symbolic_models.inputs_of(name, n)]
               for n in sizes}  # fmt: skip
    with Session(compile_shapes(mod, "jit")) as session, \
            Session(compile_shapes(mod, "generic")) as generic:  # fmt: skip
        for _ in range(3):
            for n in sizes:
                session(*tensors[n])
        session.settle(600)
        static = {n: Session(compile_shapes(bound(mod, name, n), "generic")) for n in set(sizes)}
        default = _default(mod)
        calls: dict[str, Call] = {
            "jit": lambda n: session(*tensors[n]),
            "TVM default": lambda n: default(*tensors[n]),
            "generic": lambda n: generic(*tensors[n]),
            "static": lambda n: static[n](*tensors[n]),
            "torch.compile": _torch(name, sizes),
            "ONNX Runtime": _onnx_runtime(mod, tensors),
        }
        worst = max(_worst_difference(calls, n) for n in set(sizes))
        before = session.stats()
        times = {n: in_turns({k: (lambda c=c, n=n: c(n)) for k, c in calls.items()})
                 for n in sorted(set(sizes))}  # fmt: skip
        after = session.stats()
        for bound_session in static.values():
            bound_session.close()
    total = {k: sum(times[n][k] for n in sizes) for k in calls}
    return Row(name, tuple(sizes), total, worst, _rate(before, after))


def _rate(before: Any, after: Any) -> float:
    hits, misses = (sum(getattr(s, k) for s in after.sites) - sum(getattr(s, k)
                    for s in before.sites) for k in ("hits", "misses"))  # fmt: skip
    return float(hits / max(hits + misses, 1))


def bound(mod: Any, name: str, size: Size) -> Any:
    """Return the module of a model with its dimensions bound."""
    from tvm import relax, tirx

    extents = dict(zip(symbolic_models.dimensions(name), size, strict=True))
    values = {}
    for param, shape in zip(mod["main"].params, symbolic_models.SHAPES[name], strict=True):
        for var, letter in zip(param.ty.shape.values, shape, strict=True):
            if isinstance(var, tirx.Var):
                values[var] = extents[str(letter)]
    return relax.transform.BindSymbolicVars(values)(mod)


def _default(mod: Any) -> Any:
    """Return TVM's own build of a module."""
    import tvm
    from tvm import relax

    from opinfo.byoc.codegen.host_target import native_target

    executable = tvm.compile(mod, target=native_target())
    return relax.VirtualMachine(executable, tvm.cpu())["main"]


def _torch(name: str, sizes: Sequence[Size]) -> Call:
    import torch

    torch.set_num_threads(1)
    compiled = torch.compile(symbolic_models.torch_model(name), dynamic=True)
    arrays = {n: [torch.from_numpy(a) for a in symbolic_models.inputs_of(name, n)] for n in sizes}

    def call(n: Size) -> Any:
        with torch.inference_mode():
            return compiled(*arrays[n])

    for n in sorted(set(sizes)):
        call(n)
    return call


def _onnx_runtime(mod: Any, tensors: Mapping[Any, Any]) -> Call:
    """Return a call of ONNX Runtime in TVM's virtual machine; its backend takes the whole graph."""
    from opinfo.byoc.compile import compile_module

    main = compile_module(mod, ["onnxruntime"], plan=False).machine()["main"]
    return lambda n: main(*tensors[n])


def _worst_difference(calls: Mapping[str, Call], n: Size) -> float:
    ours = _array(calls["jit"](n))
    scale = max(float(np.abs(ours).max()), 1e-30)
    return max(float(np.abs(_array(c(n)) - ours).max()) / scale for c in calls.values())


def _array(result: Any) -> Any:
    if hasattr(result, "numpy"):
        return result.numpy()
    return _array(result[0])


def in_turns(calls: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median milliseconds of each call, in turns."""
    often: dict[str, int] = {}
    times: dict[str, list[float]] = {k: [] for k in calls}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        often[name] = max(1, int(LONG / (1e3 * (time.perf_counter() - start))))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(often[name]):
                call()
            times[name].append(1e3 * (time.perf_counter() - start) / often[name])
    return {k: statistics.median(v) for k, v in times.items()}


def page(rows: list[Row]) -> str:
    from benchmarks.common.pages import table

    names = list(rows[0].milliseconds)
    columns = ("model", "stream, ms", *(f"{n} / jit" for n in names if n != "jit"),
               "outputs within", "by special kernels")  # fmt: skip
    lines = []
    for row in rows:
        ours = row.milliseconds["jit"]
        ratios = (f"{t / ours:.3g}" for n, t in row.milliseconds.items() if n != "jit")
        lines.append(
            (row.model, f"{ours:.2f}", *ratios, f"{row.outputs:.0e}", f"{row.hit_rate:.0%}")
        )
    return f"# Streams of shapes\n\n{HEAD}\n\n{table(columns, lines)}\n"


HEAD = """Written by `python -m benchmarks.shapes.stream --json FILE --page`: the
time of 50 requests of varying size, divided by the time of opinfo's `jit` with its kernels compiled
(more than 1: slower than opinfo). One thread, medians of calls in turns. **TVM default** is
`tvm.compile` of the symbolic module for this CPU; **generic** opinfo's schedules for symbolic
shapes (near 1: as fast as kernels for the size); **static** a build for each size by the same
schedules; **ONNX Runtime** its backend, which takes the whole graph, in TVM's virtual machine.
Models: `benchmarks/common/symbolic_models.py`."""


def parse_options(
    module: str, doc: str | None, names: Sequence[str], page_name: str = "shapes.md"
) -> Any:
    """Parse the options of a benchmark of models with a page; set the process to one thread."""
    parser = model_parser(module, doc, names)
    add_page_option(parser, page_name)
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json")
    use_threads(1)
    warnings.simplefilter("ignore")
    return options


def main() -> int:
    options = parse_options("benchmarks.shapes.stream", __doc__, symbolic_models.NAMES)
    measure_models(options, measure, Row, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
