"""Run real models with symbolic shapes by each strategy, against TVM's own build.

    python -m benchmarks.shapes.real [--json FILE] [--page [FILE]] [MODEL ...]

CNNs, PP-OCRv4 and transformers with a symbolic batch are compiled for `generic`, `aot` (two sizes)
and `jit`, and called at sizes among which some have no kernel of their own. Exits with 1 where an
output differs by more than 1e-3 of its largest value.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.rows import measure_models
from benchmarks.shapes.stream import in_turns, parse_options

CNNS = ("resnet50", "squeezenet", "densenet121", "inception_v1", "ocr_det",
        "ocr_rec", "ocr_cls")  # fmt: skip
NAMES = (*CNNS, "bert_n", "gpt2_n", "vit_n", "swin_n")
SIZES = (1, 2, 3)
TOLERANCE = 1e-3
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """Functions, kernels, difference of outputs, milliseconds at the first size, and reasons."""

    model: str
    functions: int
    scheduled: int
    sites: int
    kernels: int
    hit_rate: float
    apart: float
    milliseconds: Mapping[str, float]
    reasons: Mapping[str, int]

    def as_line(self) -> str:
        times = ", ".join(f"{k} {v:.2f} ms" for k, v in self.milliseconds.items())
        return (f"{self.model}: {self.scheduled} of {self.functions} functions scheduled, "
                f"{self.sites} sites, {self.kernels} kernels, {self.hit_rate:.0%} by them; "
                f"{times}; outputs within {self.apart:.1e}; {dict(self.reasons)}")  # fmt: skip


def cnn(name: str) -> tuple[Any, Callable[[int], list[Array]]]:
    import opinfo
    from benchmarks.common import full_models

    with tempfile.TemporaryDirectory() as folder:
        path, _ = full_models.save(name, Path(folder))
        ((key, sample),) = full_models.inputs(name).items()
        mod = opinfo.load(path, {key: ("n", *sample.shape[1:])})
    return mod, lambda n: [np.concatenate([sample * (1 + k / 9) for k in range(n)])]


def transformer(name: str) -> tuple[Any, Callable[[int], list[Array]]]:
    """Return a transformer in the size of `tests.models`, and its inputs for a batch."""
    import torch

    import opinfo
    from tests.models import transformer as transformers

    bare = name.removesuffix("_n")
    (value,) = transformers.torch_model(bare)[1].values()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.pt2"
        torch.export.save(transformers.program(bare, symbolic=True), path)
        mod = opinfo.load(path)
    return mod, lambda n: [np.concatenate([value.numpy()[:1]] * n)]


def measure(name: str) -> Row:
    import tvm
    from tvm import relax

    from opinfo.byoc.codegen.host_target import native_target
    from opinfo.jit import Aot, Session, compile_shapes

    mod, arguments = (cnn if name in CNNS else transformer)(name)
    symbols = sorted(relax.analysis.defined_symbolic_vars(mod["main"]), key=lambda v: v.name)
    buckets = {v.name: (1, 2) if k else (1, 3) for k, v in enumerate(symbols)}
    default = relax.VirtualMachine(tvm.compile(mod, native_target()), tvm.cpu())["main"]
    right = {n: flat(default(*map(tvm.runtime.tensor, arguments(n)))) for n in SIZES}
    strategies: dict[str, Any] = {"jit": "jit", "generic": "generic", "aot": Aot(buckets, pad=True)}
    compiled = {k: compile_shapes(mod, s) for k, s in strategies.items()}
    sessions = {k: Session(d) for k, d in compiled.items()}
    worst = 0.0
    for _ in range(3):
        for n in SIZES:
            tensors = list(map(tvm.runtime.tensor, arguments(n)))
            for session in sessions.values():
                worst = max(worst, difference(flat(session(*tensors)), right[n]))
        sessions["jit"].settle(1200)
    before = sessions["jit"].stats()
    tensors = list(map(tvm.runtime.tensor, arguments(SIZES[0])))
    times = in_turns({"TVM default": lambda: default(*tensors),
                      **{k: lambda s=s: s(*tensors) for k, s in sessions.items()}}, 5)  # fmt: skip
    after = sessions["jit"].stats()
    for session in sessions.values():
        session.close()
    hits, misses = (sum(getattr(s, k) for s in after.sites) - sum(getattr(s, k)
                    for s in before.sites) for k in ("hits", "misses"))  # fmt: skip
    functions = compiled["jit"].functions
    reasons = Counter(f.why for f in functions if f.why)
    reasons.update(f"{e.what}: {e.why}" for e in after.events if e.what in ("failed", "refused"))
    rate, scheduled = hits / max(hits + misses, 1), sum(f.rule != "none" for f in functions)
    return Row(name, len(functions), scheduled, len(after.sites), after.kernels, rate, worst, times,
               dict(reasons))  # fmt: skip


def flat(result: Any) -> list[Array]:
    if hasattr(result, "numpy"):
        return [result.numpy()]
    return [a for part in result for a in flat(part)]


def difference(got: Sequence[Array], right: Sequence[Array]) -> float:
    """Return the largest difference, relative to an output's largest value."""
    return max(float(np.abs(a.astype("float64") - b).max() / max(float(np.abs(b).max()), 1e-30))
               for a, b in zip(got, right, strict=True))  # fmt: skip


def page(rows: list[Row]) -> str:
    from benchmarks.common.pages import table

    names = ("TVM default", "generic", "aot")
    columns = ("model", "functions", "scheduled", "call sites", "kernels", "jit, ms",
               *(f"{n} / jit" for n in names), "by special kernels", "outputs within")  # fmt: skip
    lines = [(row.model, str(row.functions), str(row.scheduled), str(row.sites), str(row.kernels),
              f"{row.milliseconds['jit']:.2f}",
              *(f"{row.milliseconds[n] / row.milliseconds['jit']:.3g}" for n in names),
              f"{row.hit_rate:.0%}", f"{row.apart:.0e}") for row in rows]  # fmt: skip
    return f"# Real models with symbolic shapes\n\n{HEAD}\n\n{table(columns, lines)}\n"


HEAD = """Written by `python -m benchmarks.shapes.real --json FILE --page`.
Outputs of every strategy are compared with TVM's own build of the symbolic module at sizes 1, 2 and
3. Times are medians of calls in turns, at size 1, on one thread, divided by the time of `jit` with
its kernels compiled. **Scheduled** is the number of PrimFuncs that opinfo schedules for symbolic
shapes. CNNs and PP-OCRv4 have all their layers and a symbolic batch; the transformers are the small
ones of `tests/models/transformer.py`."""


def main() -> int:
    options = parse_options("benchmarks.shapes.real", __doc__, NAMES)
    rows = measure_models(options, measure, Row, page)
    return int(any(row.apart > TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
