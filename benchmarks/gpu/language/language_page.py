"""Write docs/results/gpu-language.md from the rows of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES

from .builds import FORMATS, STEPS

HEAD = """# Language models on a GPU

Written by `python -m benchmarks.gpu.language page DIR`: a model with layers of the sizes of
Llama 8B, eight of them, built by `relax.frontend.nn` as MLC-LLM builds its models, with random
weights as parameters. **TVM** is the same module with the fusions of MLC-LLM's passes, dlight's
default schedules and CUDA graphs; **torch** is `torch.compile(mode="reduce-overhead")` with a
static cache, where opinfo and TVM copy the cache of 1023 tokens with the new one. Milliseconds of
a call, medians of calls in turns in one process. **apart** is the largest
difference of the logits from float32, relative to the largest one.
"""


def write(folder: Path) -> Path:
    """Write the page, and return its path."""
    rows = [json.loads(p.read_text()) for p in sorted(folder.glob("*.time.json"))]
    by_name = {row["name"]: row for row in rows}
    names = [f"{form}-{step}" for form in FORMATS for step in STEPS]
    lines = [HEAD, f"{rows[0]['device'] if rows else ''}.\n",
             "| case | opinfo, ms | TVM, ms | / TVM | torch, ms | / torch | apart | TVM apart | "
             "kernels | TVM kernels |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
             *(_line(by_name[n]) for n in names if n in by_name)]  # fmt: skip
    products = folder / "products.json"
    if products.exists():
        lines += _products(json.loads(products.read_text()))
    path = PAGES / "gpu-language.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def _line(row: Mapping[str, Any]) -> str:
    def ratio(peer: str) -> str:
        both = "opinfo" in row and peer in row
        return f"{row['opinfo'] / row[peer]:.2f}" if both else ""

    def kernels(way: str) -> str:
        found = row.get(f"{way}_kernels")
        return str(round(sum(k[1] for k in found))) if found else ""

    def number(key: str, form: str) -> str:
        return format(row[key], form) if key in row else ""

    cells = [f"`{row['name']}`", number("opinfo", ".3g"), number("tvm", ".3g"), ratio("tvm"),
             number("torch", ".3g"), ratio("torch"), number("opinfo_apart", ".0e"),
             number("tvm_apart", ".0e"), kernels("opinfo"), kernels("tvm")]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _products(rows: list[Mapping[str, Any]]) -> list[str]:
    """The table of products alone."""
    by_tvm = {tuple(r["job"][:4]): r for r in rows if r["job"][4] is None}
    ours = {tuple(r["job"][:4]): r for r in rows if r["job"][4] == [0, 0, 0]}
    out = ["\n## Products of few rows with packed weights\n",
           "Columns x depth; groups of 32. The share is of the bandwidth of a copy of 256 MiB.\n",
           "| rows | weights | bits | us | of the bandwidth | TVM, us | / TVM | apart |",
           "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for key, row in ours.items():
        peer = by_tvm.get(key, {})
        if "us" not in row:
            continue
        tvm = f"{peer['us']:.1f} | {row['us'] / peer['us']:.2f}" if "us" in peer else " | "
        out.append(f"| {key[0]} | {key[1]} x {key[2]} | {key[3]} | {row['us']:.1f} | "
                   f"{row['share']:.0%} | {tvm} | {row['apart']:.0e} |")  # fmt: skip
    return out
