"""The page of results: docs/results/gpu.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES, table

HEAD = """# Whole models on a GPU

Written by `python -m benchmarks.gpu page DIR`: milliseconds of a call, medians of calls in turns in
one process, all with CUDA graphs, random weights, no tf32. Models are timed in several runs.
**torch** is `torch.compile(mode="{mode}")`, channels last for images; **TVM** is TVM's default
build. **apart** is the largest difference from torch in float32, relative to the largest value.
**kernels** is the number that a call launches. Models are compiled some fifteen at a time.

{device}; torch {torch}, apache-tvm 0.27.
"""
COLUMNS = ("model", "opinfo, ms", "/ torch", "/ TVM", "apart", "torch apart", "kernels",
           "time in kernels", "compiling, s", "offloaded")  # fmt: skip


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder, those of building joined to those of timing."""
    out = []
    for path in sorted(folder.glob("*.build.json")):
        row = json.loads(path.read_text())
        timed = path.with_name(path.name.replace(".build.", ".time."))
        out.append(row | (json.loads(timed.read_text()) if timed.exists() else {}))
    return out


def write(folder: Path) -> Path:
    """Write the page, and the rows beside it as JSON; return its path."""
    found = rows(folder)
    timed = [r for r in found if "device" in r]
    head = HEAD.format(mode=timed[0]["mode"], device=timed[0]["device"], torch="2.11.0")
    parts = [head]
    for dtype in sorted({r["dtype"] for r in found}):
        for batch in ("1", "32"):
            part = [r for r in found if r["dtype"] == dtype and r["name"].endswith(f"-b{batch}")]
            if part:
                parts.append(f"## {dtype}, batch {batch}\n\n{_summary(part)}\n\n{_table(part)}\n")
    path = PAGES / "gpu.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _ratio(row: dict[str, Any], other: str) -> float | None:
    return row["ours"] / row[other] if "ours" in row and other in row else None


def _summary(part: Sequence[dict[str, Any]]) -> str:
    texts = []
    for other, name in (("torch", "torch"), ("tvm", "TVM")):
        ratios = [x for x in (_ratio(r, other) for r in part) if x is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            slower = sum(x > 1 for x in ratios)
            texts.append(f"{mean:.2f} x {name} on {len(ratios)} (above 1: {slower})")
    return f"Geometric means: {', '.join(texts) or 'none'}."


def _table(part: Sequence[dict[str, Any]]) -> str:
    return table(COLUMNS, [_cells(r) for r in part])


def _cells(row: dict[str, Any]) -> list[str]:
    if "ours" not in row:
        reason = row.get("error") or row.get("ours_error") or "not timed"
        return [f"`{row['name']}`", *[""] * 8, " ".join(reason.split())[:200]]
    kernels = row.get("ours_kernels", [])
    spent = sum(t for _, _, t in kernels) / 1e3
    ratios = [f"{x:.2f}" if x else "" for x in (_ratio(row, "torch"), _ratio(row, "tvm"))]
    apart = [f"{row[k]:.0e}" if k in row else "" for k in ("ours_apart", "torch_apart")]
    count = f"{sum(n for _, n, _ in kernels):.0f}"
    return [f"`{row['name']}`", f"{row['ours']:.3g}", *ratios, *apart, count,
            f"{spent / row['ours']:.0%}", f"{row.get('compile_s', 0):.0f}",
            row.get("summary", "").partition("\n")[0]]  # fmt: skip
