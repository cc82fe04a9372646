"""The pages of kernels on GPUs: docs/results/gpu-kernels.md, and one for each other device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES, table

from .gpu_kernel_cases import KERNELS, MIB

HEAD = """# Kernels on a GPU

Written by `python -m benchmarks.gpu_kernels --page`: microseconds of a call with opinfo's
schedules, with TVM's own rules, and in eager torch, all in CUDA graphs. **Limit** is the time that
the device's memory needs to read each input and write each output once, relative to opinfo's, at
the bandwidth of a copy of 256 MiB in the same run ({copy:.0f} GB/s); above 100 % where a part of it
stays in the cache. **Apart** is the largest difference from torch in float32, relative to the
largest value.

**Kernels** is how many opinfo's schedule launches; **symbolic** rows have a number of rows that is
known at run time only.

{large}

{device}. {missing}{earlier}Geometric means of the times: {tvm:.2f} x TVM on {tvms},
{torch:.2f} x torch on {torchs}.
"""
#: Of rows with the key ``earlier``, for which a run with ``--alone`` gave opinfo's time.
EARLIER = "Times of TVM and of torch are of an earlier run on such a device. "
COLUMNS = ("kind", "kernel", "dtype", "MiB", "kernels", "opinfo", "TVM", "torch", "limit", "apart")
#: Bytes of large kernels, and the share of the bandwidth that they should have.
LARGE, SHARE = 16 * MIB, 0.8


def write(rows: Sequence[dict[str, Any]], device: str) -> Path:
    """Write the page of some rows that were measured on a device; return its path."""
    timed = [r for r in rows if "opinfo" in r]
    means = {way: _mean([r["opinfo"] / r[way] for r in timed if way in r])
             for way in ("tvm", "torch")}  # fmt: skip
    first = timed[0]
    copy = first["bytes"] / first["opinfo"] / first["share"] / 1e3
    every = sum(len(k.types) for k in KERNELS)
    missing = f"{every - len(timed)} of {every} kernels were not timed there. "
    head = HEAD.format(copy=copy, device=device, large=_large(timed),
                       earlier=EARLIER if any(r.get("earlier") for r in timed) else "",
                       missing=missing if len(timed) < every else "",
                       tvm=means["tvm"], torch=means["torch"],
                       tvms=sum("tvm" in r for r in timed),
                       torchs=sum("torch" in r for r in timed))  # fmt: skip
    path = PAGES / page_of(device)
    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    cells = [_cells(r) for r in sorted(rows, key=lambda r: kinds.index(r["kind"]))]
    path.write_text(f"{head}\n{table(COLUMNS, cells)}\n", encoding="utf-8")
    return path


def page_of(device: str) -> str:
    """Return the name of a device's page: that of the first device has none of a device.

    >>> page_of("NVIDIA H200")
    'gpu-kernels-h200.md'
    """
    short = device.removeprefix("NVIDIA ").partition(" ")[0].lower()
    return "gpu-kernels.md" if short == "h100" else f"gpu-kernels-{short}.md"


def _large(rows: Sequence[dict[str, Any]]) -> str:
    """How many large kernels of each kind have the share, and which are slower than TVM's."""
    out = []
    for kind in dict.fromkeys(r["kind"] for r in rows):
        shares = [r["share"] for r in rows if r["kind"] == kind and r["bytes"] >= LARGE]
        if shares:
            out.append(f"{kind} {sum(s >= SHARE for s in shares)} of {len(shares)}")
    slower = [f"{r['name']} {r['dtype']} ({r['opinfo'] / r['tvm']:.2f} x)" for r in rows
              if "tvm" in r and r["opinfo"] > 1.02 * r["tvm"]]  # fmt: skip
    which = ", ".join(slower) or "none"
    return (f"At {SHARE:.0%} of the limit or more, of kernels with {LARGE // MIB} MiB and more: "
            f"{', '.join(out)}. Slower than TVM's by more than 2 %: {which}.")  # fmt: skip


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['name']} {'x'.join(map(str, row['shape']))}"
    times = [f"{row[way]:.1f}" if way in row else "" for way in ("opinfo", "tvm", "torch")]
    share = f"{row['share']:.0%}" if "share" in row else ""
    apart = f"{row['opinfo_error']:.0e}" if "opinfo_error" in row else ""
    size, count = f"{row['bytes'] / MIB:.1f}", str(row.get("kernels", 1))
    return [row["kind"], name, row["dtype"], size, count, *times, share, apart]
