"""The section on streams of the page of results: docs/results/gpu.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES, table

from ..page import STREAMS

HEAD = f"""{STREAMS} of many shapes

Written from `python -m benchmarks.gpu.stream`: 200 requests of 40 shapes in float16 (batch 1 to 32;
BERT-base with 16 to 512 tokens, a ViT-B/16 for images of 4 x 4 to 22 x 22 patches), each sent to
all sides in turns and waited for. All sides were called with two other shapes before. In the first
pass shapes are new. **torch** is `torch.compile(dynamic=True)`, **graphs** with
`mode="reduce-overhead"`. DEVICE."""
PASSES = ("model", "pass", "side", "all requests, ms", "/ the best of torch", "median, ms",
          "longest, ms", "apart")  # fmt: skip
SAMPLES = ("model", "shape", "opinfo, ms", "/ its static build", "/ torch", "/ graphs", "kernels",
           "static")  # fmt: skip
NAMES = {"ours": "opinfo", "torch": "torch", "torch_graphs": "torch, graphs"}


def write(folder: Path) -> Path:
    """Write the section, the last one of the page; return the page's path."""
    path = PAGES / "gpu.md"
    before, *_ = path.read_text(encoding="utf-8").partition(STREAMS)
    path.write_text(f"{before.rstrip()}\n\n{section(folder)}", encoding="utf-8")
    return path


def section(folder: Path) -> str:
    """Return the section from the rows in a folder; empty if there are none."""
    rows = [json.loads(p.read_text()) for p in sorted(folder.glob("stream-*.times.json"))]
    if not rows:
        return ""
    parts = [HEAD.replace("DEVICE", rows[0]["device"])]
    parts.append(table(PASSES, [cells for row in rows for cells in _passes(row)]))
    parts.append(table(SAMPLES, [_sample(row, s) for row in rows for s in row["samples"]]))
    return "\n\n".join(parts) + "\n"


def _passes(row: Mapping[str, Any]) -> list[list[str]]:
    out = []
    for name in ("first", "second"):
        totals = {side: sum(times) for side, times in row[name].items()}
        best = min((t for side, t in totals.items() if side != "ours"), default=None)
        for side, times in row[name].items():
            ratio = "" if best is None or side != "ours" else f"{totals[side] / best:.2f}"
            out.append([f"`{row['name']}`", name, NAMES[side], f"{totals[side]:.0f}", ratio,
                        f"{statistics.median(times):.2f}", f"{max(times):.1f}",
                        f"{max(row['apart'][side]):.0e}"])  # fmt: skip
    return out


def _sample(row: Mapping[str, Any], sample: Mapping[str, Any]) -> list[str]:
    ratios = [f"{sample['ours'] / sample[k]:.2f}" if k in sample else ""
              for k in ("static", "torch", "torch_graphs")]  # fmt: skip
    counts = [f"{sum(n for _, n, _ in sample.get(k, [])):.0f}"
              for k in ("ours_kernels", "static_kernels")]  # fmt: skip
    shape = " x ".join(map(str, sample["shape"]))
    return [f"`{row['name']}`", shape, f"{sample['ours']:.3g}", *ratios, *counts]
