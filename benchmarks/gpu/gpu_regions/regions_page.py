"""The page of regions on a GPU: docs/results/gpu-regions.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.pages import PAGES, table
from benchmarks.gpu.paired_times import PLACES

from .region_cases import RegionCase

HEAD = """# Regions on a GPU

Written by `python -m benchmarks.gpu_regions --page`: microseconds of a call, medians of calls in
turns, both in CUDA graphs. **torch** has `cudnn.benchmark` and no tf32; for attention, the fastest
backend of `scaled_dot_product_attention`. **Apart** is the largest difference from torch in float32
or float64, relative to the largest value.

The same kernel takes up to two percent more or less by where its tensors are in memory, so each
side is timed with its tensors in {places} places. **Ratio** is the median of those of places,
**from** and **to** are the smallest and the largest one: the median of all places is between them
with 97 % probability; a row counts as slower if all are above 1. **Same**, of rows near 1, is yes
where both sides launch the same kernels, equally often: a choice of kernels would not change them.
Of attention, cuDNN clears memory before each kernel on both sides; a whole model of opinfo clears
it once, which is not in these figures.

{device}; torch {torch}. Geometric means of opinfo / torch: {means}.
"""
#: From this ratio on, it matters whether both sides launch the same kernels.
CLOSE = 0.97
COLUMNS = ("kind", "region", "dtype", "opinfo", "torch", "ratio", "from", "to", "same", "apart")


def write(chosen: Sequence[RegionCase], rows: Sequence[dict[str, Any]]) -> Path:
    """Write docs/results/gpu-regions.md; return its path."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case, row in zip(chosen, rows, strict=True):
        if "ratio" in row:
            words = {"attention": "attention", "product": "products"}
            name = f"{words.get(case.kind, 'convolutions')} in {case.dtype}"
            groups.setdefault(name, []).append(row)
    head = HEAD.format(device=torch.cuda.get_device_name(), torch=torch.__version__,
                       means=", ".join(map(_summary, groups, groups.values())),
                       places=PLACES)  # fmt: skip
    path = PAGES / "gpu-regions.md"
    cells = [_cells(c, r) for c, r in zip(chosen, rows, strict=True)]
    path.write_text(f"{head}\n{table(COLUMNS, cells)}\n", encoding="utf-8")
    return path


def _summary(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """The mean ratio of a group, and how many of its rows are slower than torch."""
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / len(rows))
    slower = [r for r in rows if r["verdict"] == "slower"]
    other = sum(not r["same"] for r in slower)
    return f"{name} {mean:.2f} on {len(rows)} (slower: {len(slower)}, with other kernels {other})"


def _cells(case: RegionCase, row: dict[str, Any]) -> list[str]:
    names = [case.kind, case.name, case.dtype]
    if "error" in row:
        return [*names, *[""] * (len(COLUMNS) - 4), row["error"][:100]]
    times = [f"{row['us']:.1f}", f"{row['torch_us']:.1f}"]
    ratios = [f"{r:.3f}" if row["ratio"] > CLOSE else f"{r:.2f}"
              for r in (row["ratio"], *row["interval"])]  # fmt: skip
    same = ("yes" if row["same"] else "no") if row["interval"][1] > CLOSE else ""
    wrong = "" if row["right"] else " WRONG"
    return [*names, *times, *ratios, same, f"{row['apart']:.0e}{wrong}"]
