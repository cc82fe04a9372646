"""The page of results, docs/results/gpu.md, and its rows, gpu.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.pages import PAGES, table

from .architectures import MODES, SETS
from .idle_host import section, with_idle

HEAD = """# Whole models on a GPU

Written by `python -m benchmarks.gpu page DIR`: milliseconds of a call, medians of calls in turns in
one process, the device to itself, all with CUDA graphs, random weights, no tf32. Models are timed
in several runs, and compiled some fifteen at a time.

- **/ torch** is the time relative to `torch.compile` in this mode, channels last for images;
  **/ TVM** to TVM's default build. Both times are of the last run with that peer, which may be
  older than the first column: Swin's with max-autotune at batch 32 was of 2.61 ms.
- In float32, large products of opinfo are six products of bfloat16 pieces in one, added in float32
  ([decision 173](../adr/0173-products-of-float32-as-pieces-of-bfloat16.md)); torch's are SGEMM.
- **apart** is the largest difference from torch in float32, relative to the largest value.
- **kernels** is the number that a call launches, **moves** how many of them only copy, cast or
  rearrange elements, **libraries** the share of the kernels' time in cuDNN's and cuBLASLt's.
- **in kernels** is the share of a call's time in which a kernel runs, while other models compile on
  the host; a section at the end has that of an idle host.
- **Models chosen later**, those chosen last, and those chosen after all these, were picked once,
  after what stands before them was worked on. What they showed was mended by mechanism; the models
  that showed it count as tuned since: RegNetY, with HRNet and ResNeXt (convolutions of groups got a
  kernel), ConvNeXt V2 (9.5 x torch at batch 1 until totals got kernels of their own), EdgeNeXt (did
  not compile at batch 1), CSPDarkNet (1.35 x torch at batch 32 until leaky ReLU was fused) and XCiT
  (1.40 x until a layout transform wrote neighbours). An empty cell is a mode that a model was not
  timed in; LeViT's attention keeps a tensor that torch's graphs overwrite.
- **The faster of both** modes is taken row by row. max-autotune times candidates launched by the
  host, which costs cuDNN's convolutions more than Triton's: at batch 1, RepViT and XCiT got
  Triton's depthwise convolutions of up to 38 us, and were slower than with reduce-overhead. Other
  models were compiled on the host meanwhile.
- **host, ms** is the time until a call returns, on an idle device; the device works meanwhile.

{devices}; torch {torch}, apache-tvm 0.27. All sides of a row were on the same device.
"""
#: The last section of the page, which is of another benchmark.
STREAMS = "## Streams of requests"
#: What titles of sections say of a set.
_TITLES = {"first": "", "later": ", models chosen later", "last": ", models chosen last",
           "newest": ", models chosen after all these"}  # fmt: skip
#: Peers by their keys in rows.
PEERS = {"max-autotune": "/ torch max-autotune", "reduce-overhead": "/ torch reduce-overhead",
         "tvm": "/ TVM"}  # fmt: skip
COLUMNS = ("device", "apart", "torch apart", "kernels", "moves", "libraries", "in kernels",
           "host, ms", "compiling, s", "offloaded")  # fmt: skip


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder, those of building joined to those of timing."""
    out = []
    for path in sorted(folder.glob("*.build.json")):
        row = json.loads(path.read_text())
        timed = path.with_name(path.name.replace(".build.", ".time."))
        out.append(row | (json.loads(timed.read_text()) if timed.exists() else {}))
    return out


def joined(stored: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows, by model and dtype; a new one replaces the peers it was timed against."""
    out = {(r["name"], r["dtype"]): r for r in stored}
    for row in new:
        before = out.get((row["name"], row["dtype"]), {})
        if before.get("device") == row.get("device"):
            kept = {k: v for k, v in before.items() if k.startswith(tuple(PEERS))}
            row = kept | row
        idle = {k: v for k, v in before.items() if k == "idle"}
        out[row["name"], row["dtype"]] = idle | row
    return [out[key] for key in sorted(out)]


def _light(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the number of kernels in place of their names."""
    light = {k: v for k, v in row.items() if not k.endswith("_kernels")}
    if "ours_kernels" in row:
        light["ours_number"] = round(sum(n for _, n, _ in row["ours_kernels"]))
    return light


def write(folder: Path, idle: bool = False) -> Path:
    """Write the page, and its rows beside it as JSON, joined to those before; return its path.

    With ``idle``, the folder's rows were timed without peers, on a host that did nothing else.
    """
    data = PAGES / "gpu.json"
    stored = json.loads(data.read_text(encoding="utf-8")) if data.exists() else []
    new = [_light(row) for row in rows(folder)]
    found = with_idle(stored, new) if idle else joined(stored, new)
    data.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    timed = [r for r in found if "device" in r]
    devices = ", ".join(sorted({r["device"] for r in timed}))
    head = HEAD.format(devices=devices, torch="2.11.0")
    parts = [head]
    for title, part in _parts(found):
        parts.append(f"## {title}\n\n{_summary(part)}\n\n{_table(part)}\n")
    parts += filter(None, [section(found)])
    path = PAGES / "gpu.md"
    _, title, streams = path.read_text(encoding="utf-8").partition(STREAMS)
    parts += [title + streams] * bool(title)  # which benchmarks.gpu.stream writes
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _parts(found: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the sections of the page: titles and rows, set by set."""
    for chosen, nets in SETS.items():
        rows_of = [r for r in found if r["name"].rpartition("-b")[0] in nets]
        for dtype in sorted({r["dtype"] for r in rows_of}):
            for batch in ("1", "32"):
                part = [r for r in rows_of if r["dtype"] == dtype]
                part = [r for r in part if r["name"].endswith(f"-b{batch}")]
                if part:
                    yield f"{dtype}, batch {batch}" + _TITLES[chosen], part


def _ratio(row: dict[str, Any], peer: str) -> float | None:
    """Our time relative to a peer's in the same run."""
    ours = row.get(f"{peer}_ours", row.get("ours"))
    return ours / row[peer] if ours is not None and peer in row else None


def _peers(part: Sequence[dict[str, Any]]) -> list[str]:
    """The peers that one of the rows was timed against, or that failed there."""
    return [p for p in PEERS if any(p in r or f"{p}_error" in r for r in part)]


def _summary(part: Sequence[dict[str, Any]]) -> str:
    compared = [(PEERS[p].removeprefix("/ "), ratios(part, [p])) for p in _peers(part)]
    compared.append(("the faster of both", ratios(part, MODES)))
    texts = [
        f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} x {name} on {len(ratios)} "
        f"(above 1: {sum(x > 1 for x in ratios)})"
        for name, ratios in compared
        if ratios
    ]
    return f"Geometric means: {', '.join(texts) or 'none'}."


def ratios(part: Sequence[dict[str, Any]], peers: Sequence[str]) -> list[float]:
    """Our time relative to the faster of several peers, of the rows that have all of them."""
    each = [[_ratio(row, peer) for peer in peers] for row in part]
    known = [[x for x in ratios if x is not None] for ratios in each]
    return [max(ratios) for ratios in known if len(ratios) == len(peers)]


def _table(part: Sequence[dict[str, Any]]) -> str:
    peers = _peers(part)
    head = ["model", "opinfo, ms", *(PEERS[p] for p in peers), *COLUMNS]
    return table(head, [_cells(r, peers) for r in part])


def _cells(row: dict[str, Any], peers: Sequence[str]) -> list[str]:
    name = f"`{row['name']}`"
    if "ours" not in row:
        reason = row.get("error") or row.get("ours_error") or "not timed"
        return [name, *[""] * (len(peers) + len(COLUMNS)), " ".join(reason.split())[:200]]
    ratios = [_cell(row, peer) for peer in peers]
    torch = next((p for p in PEERS if f"{p}_apart" in row and p != "tvm"), "")
    apart = [f"{row[k]:.0e}" if k in row else "" for k in ("ours_apart", f"{torch}_apart")]
    compiling = f"{row.get('compile_s', 0):.0f}"
    offloaded = row.get("summary", "").partition("\n")[0]
    device = row["device"].removeprefix("NVIDIA ").partition(" ")[0]
    return [name, f"{row['ours']:.3g}", *ratios, device, *apart, *_profile(row), compiling,
            offloaded]  # fmt: skip


def _cell(row: dict[str, Any], peer: str) -> str:
    ratio = _ratio(row, peer)
    return f"{ratio:.2f}" if ratio is not None else "fails" if f"{peer}_error" in row else ""


def _profile(row: dict[str, Any]) -> list[str]:
    if "ours_busy" not in row:
        return [""] * 5
    return [f"{row['ours_number']}", f"{row['ours_moves']:.0f}", f"{row['ours_libraries']:.0%}",
            f"{row['ours_busy'] / row['ours']:.0%}", f"{row['ours_host']:.2g}"]  # fmt: skip
