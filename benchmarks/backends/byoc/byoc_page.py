"""docs/results/speed.md: a table for each number of threads."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.common.pages import table

HEAD = """# Speed of models compiled for oneDNN

Written by `python -m benchmarks.byoc --threads N --json FILE --page`: milliseconds of
a call, and ratios of that time to others. All are medians of calls in turns in one process, with
the same number of threads, each after a pause and an uncounted call: threads of a pool spin for a
while after a call, on cores that the next one needs. **Without planning** is oneDNN with the
imported layouts; **TVM default** TVM's own code; **torch.compile** inductor in its default mode,
for torch modules. Outputs are compared with ONNX Runtime's, relative to the largest value.
Batch 1, images of 224x224 (PP-OCRv4: detector 320x320, recogniser 48x320, direction 48x192);
`torch:bert` has the size of BERT-base and 128 tokens, `torch:vit` the size of ViT-B/16.
Compiling includes the C++ compiler.

"""
COLUMNS = ("model", "ms", "/ ONNX Runtime", "/ torch.compile", "/ TVM default",
           "/ without planning", "outputs within", "ops offloaded", "of FLOPs",
           "compiling, CPU s")  # fmt: skip


def page(rows: Sequence[Row], order: Sequence[str]) -> str:
    """Return the page, with rows in the order of ``order``."""
    where = {name: k for k, name in enumerate(order)}
    rows = sorted(rows, key=lambda r: where.get(r.model, len(where)))
    parts = []
    for threads in sorted({r.threads for r in rows}):
        of_threads = [r for r in rows if r.threads == threads]
        plural = "" if threads == 1 else "s"
        lines = [_line(r) for r in of_threads]
        parts.append(f"## {threads} thread{plural}\n\n{table(COLUMNS, lines)}"
                     f"\n\n{_goal(of_threads)}\n")  # fmt: skip
    return HEAD + "\n".join(parts) + f"\n{_machine()}\n"


def _line(row: Row) -> tuple[str, ...]:
    offloaded, share, *_ = row.summary.split(", ")
    others = (row.onnx_runtime, row.torch_compile, row.default, row.unplanned)
    ratios = (f"{row.onednn / t:.3g}" if t else "" for t in others)
    return (row.model, f"{row.onednn:.2f}", *ratios, f"{row.outputs:.0e}",
            offloaded.removeprefix("offloaded ").removesuffix(" ops"),
            share.removesuffix(" of FLOPs"), f"{row.seconds:.0f}")  # fmt: skip


def _goal(rows: Sequence[Row]) -> str:
    ratios = [r.onednn / r.onnx_runtime for r in rows]
    as_fast = sum(x <= 1 for x in ratios)
    return (f"At most ONNX Runtime's time on {as_fast} of {len(rows)} models; at worst "
            f"{max(ratios):.2f} × it.")  # fmt: skip


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [x.partition(":")[2].strip() for x in lines if x.startswith("model name")]
    packages = ("apache-tvm", "onednn-cpu-gomp", "onnxruntime", "torch")
    versions = ", ".join(f"{p} {version(p)}" for p in packages)
    return f"{(names or [platform.machine()])[0]}; {versions}."


@dataclass(frozen=True)
class Row:
    """Milliseconds of a call; None where it was not measured."""

    model: str
    threads: int
    summary: str
    onednn: float
    unplanned: float
    onnx_runtime: float
    torch_compile: float | None
    default: float | None
    outputs: float
    seconds: float

    def as_line(self) -> str:
        others = {"ONNX Runtime": self.onnx_runtime, "torch.compile": self.torch_compile,
                  "without planning": self.unplanned, "TVM default": self.default}  # fmt: skip
        ratios = [f"{self.onednn / t:.3g} × {name}" for name, t in others.items() if t]
        return (f"{self.model}: {self.onednn:.2f} ms, {', '.join(ratios)}; outputs within "
                f"{self.outputs:.1e}; compiled in {self.seconds:.0f} s; "
                f"{self.summary}")  # fmt: skip
