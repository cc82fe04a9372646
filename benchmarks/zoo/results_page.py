"""docs/results/zoo.md: what is read; zoo-amx.md, -avx512.md and -avx2.md: how fast it is."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.common.pages import table

from .differences import TOLERANCE, nearest, verdict
from .models.subject import every
from .split import PARTS, part

Row = Mapping[str, Any]
PEERS = {"onnx_runtime": "ONNX Runtime", "openvino": "OpenVINO", "torch_compile": "torch.compile"}
MARKS = {"right": "", "rounding": " by rounding", "wrong": " **wrong**"}
#: A page for each, named by the last word of `cpu_name`.
ISAS = {"AMX": "AVX-512 and AMX", "AVX-512": "AVX-512", "AVX2": "AVX2"}
#: The share of other processes in the CPU time of all cores from which a row is of a busy machine.
BUSY = 0.1
#: The times of all builds, behind the choice that was kept.
TIMES = re.compile(r"(?<=kept the choice )([^:]*): \d.*")
READ_HEAD = """# The zoo: reading real models

Written by `python -m benchmarks.zoo --page`. Each model is read as its authors ship it, or as
`torch.export` writes it, compiled for its symbolic shapes, and compared with ONNX Runtime or torch
on random inputs of several shapes. Differences are relative to the largest value of an output;
outputs are right within {tolerance:.0e} (half types: two roundings of their dtype) of the reference
or, where ONNX Runtime approximates, of OpenVINO. **OpenVINO** is how far its outputs are from those
of ONNX Runtime, and **spread** how far those move if the weights are moved by a few roundings; both
are shown above 1e-5. Where rounding decides, between quantised values and near ties that are
sorted, the spread is large; a model that is not right, but within twice its spread, is counted
apart as **by rounding**. Work looks at the open half only; the other half is held out. Which half
a model is in is decided by a hash of its name. Models that were chosen later were held out until
they were reported, and have been worked on since; those chosen last are held out.
"""
SPEED_HEAD = """# The zoo: speed on {isa}

Written by `python -m benchmarks.zoo --page`: milliseconds of a call at batch 1, and ratios of that
time to others; below 1 is faster. All are medians of calls in turns in one process, with the same
number of threads and static shapes: of CPU time for one thread, which other processes lengthen
least, and of wall time for more. Each of these is the least of short parts. **Of the peak** is the
model's FLOPs in that time relative to those of ONNX Runtime's product of 1024 x 1024 matrices,
timed in the same turns: a model near 100% can only be faster with fewer multiplications, as by
Winograd. Work looks at the open half, and at models chosen later, which were held out until they
were reported; the other half is held out, and so are models chosen last, after that work. Outputs
are compared with ONNX Runtime's exact kernels. It is timed at its defaults, with which it saturates
sums of int8 products on CPUs without VNNI.

{machine}
"""


def as_line(step: str, row: Row) -> str:
    """Return a row for the terminal."""
    if row["refusal"]:
        return f"{row['name']}: refused: {row['refusal']}"
    if step == "read":
        return (f"{row['name']}: {verdict(row)}, {row['symbols']} symbols, "
                f"within {nearest(row):.1e}, spread {row['spread']:.1e}, "
                f"OpenVINO {row.get('second', 0.0):.1e} {row['failure']}"
                f"{'; '.join(row.get('unknown', ()))}")  # fmt: skip
    times = ", ".join(f"{k} {v:.3f}" for k, v in row["milliseconds"].items())
    missing = "".join(f"; {k}: {v}" for k, v in row["missing"].items())
    return (f"{row['name']}, {row['threads']} threads: {times} ms; within {row['difference']:.1e}; "
            f"{row['summary']}; compiled in {row['seconds']:.0f} s; others had "
            f"{row.get('busy', 0.0):.0%} of the CPU{missing}")  # fmt: skip


def write(rows: Mapping[str, Row], folder: Path) -> list[Path]:
    """Write the pages for which there are rows, and the rows of each; return the paths.

    A later run can go on from such rows with `--json`.
    """
    read = {key: row for key, row in rows.items() if key.startswith("read ")}
    written = _written(folder / "zoo", read, reading_page) if read else []
    for isa, title in ISAS.items():
        timed = {key: row for key, row in rows.items()
                 if key.startswith("speed ") and row["cpu"].endswith(f"{isa})")}  # fmt: skip
        if timed:
            stem = folder / f"zoo-{isa.lower().replace('-', '')}"
            written += _written(stem, timed, partial(speed_page, title))
    return written


def _written(
    stem: Path, rows: Mapping[str, Row], page: Callable[[Sequence[Row]], str]
) -> list[Path]:
    text, data = stem.with_suffix(".md"), stem.with_suffix(".json")
    text.write_text(page(list(rows.values())), encoding="utf-8")
    data.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return [text, data]


def reading_page(rows: Sequence[Row]) -> str:
    """Return the page of readings."""
    parts = [READ_HEAD.format(tolerance=TOLERANCE)]
    for key, title in PARTS.items():
        chosen = [row for row in rows if part(row["name"]) == key]
        if chosen:
            parts.append(f"## {title}\n\n{_read_sum(chosen)}\n\n{_read_table(chosen)}\n")
    return "\n".join(parts)


def _read_sum(rows: Sequence[Row]) -> str:
    read = [row for row in rows if not row["refusal"]]
    kinds = [verdict(row) for row in read]
    return (f"{len(read)} of {len(rows)} are read and compiled as shipped; at all shapes, the "
            f"outputs of {kinds.count('right')} are right, those of {kinds.count('rounding')} are "
            f"decided by rounding, and {kinds.count('wrong')} are wrong.")  # fmt: skip


def _large(difference: float) -> str:
    return f"{difference:.0e}" if difference > 1e-5 else ""


def _read_table(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        if row["refusal"]:
            lines.append((f"`{row['name']}`", "", "", "", "", "", _cell(row["refusal"])))
            continue
        within = f"{nearest(row):.0e}{MARKS[verdict(row)]}"
        notes = "; ".join(text for text in (row["failure"], *row.get("unknown", ())) if text)
        lines.append((f"`{row['name']}`", str(row["symbols"]), within, _large(row["spread"]),
                      _large(row.get("second", 0.0)), f"{row['seconds']:.0f}",
                      _cell(notes)))  # fmt: skip
    head = ("model", "symbolic dimensions", "outputs within", "spread", "OpenVINO",
            "reading, CPU s", "refused because, or what is not known")  # fmt: skip
    return table(head, lines)


def speed_page(isa: str, rows: Sequence[Row]) -> str:
    """Return the page of times on CPUs with these vectors."""
    parts = [SPEED_HEAD.format(isa=isa, machine=_machine(rows))]
    for threads in sorted({row["threads"] for row in rows}):
        parts.append(f"## {threads} thread{'s' * (threads > 1)}\n")
        for key, title in PARTS.items():
            chosen = [row for row in rows
                      if row["threads"] == threads and part(row["name"]) == key]  # fmt: skip
            if chosen:
                total = sum(part(name) == key for name in every())
                parts.append(f"### {title}\n\n{_speed_sum(chosen, total)}\n\n"
                             f"{_speed_table(chosen)}\n")  # fmt: skip
    return "\n".join(parts)


def _speed_sum(rows: Sequence[Row], total: int) -> str:
    timed = [row["milliseconds"] for row in rows if _timed(row)]
    if not timed:
        return "No model has a time."
    lines = [f"{len(timed)} of {total} models. Geometric means of the ratios:"]
    best = mean(m["opinfo"] / min(m[p] for p in PEERS if p in m) for m in timed)
    lines.append(f"{best:.2f} x the best of the others")
    for peer, title in PEERS.items():
        ratios = [m["opinfo"] / m[peer] for m in timed if peer in m]
        if ratios:
            slower = sum(r > 1.05 for r in ratios)
            lines.append(f"{mean(ratios):.2f} x {title} on {len(ratios)} (above 1.05: {slower})")
    seconds = [row["seconds"] for row in rows if "seconds" in row]
    above = sum(s > 60 for s in seconds)
    return (f"{lines[0]} {', '.join(lines[1:])}. Compiling takes up to {max(seconds):.0f} s of CPU "
            f"(above 60 s: {above}).{_busy(rows)}")  # fmt: skip


def _busy(rows: Sequence[Row]) -> str:
    """Say how many rows were timed on a machine with other work."""
    count = len([row for row in rows if is_busy(row)])
    text = f" Timed while others had over {BUSY:.0%} of the CPU, which moves a call by a third:"
    return f"{text} {count}." * (count > 0)


def is_busy(row: Row) -> bool:
    """Return whether a row was timed on a machine with other work."""
    return bool(row.get("busy", 0.0) > BUSY)


def _timed(row: Row) -> bool:
    times = row.get("milliseconds", {})
    return "opinfo" in times and any(p in times for p in PEERS)


def mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs))


def _speed_table(rows: Sequence[Row]) -> str:
    peak = [row for row in rows if row.get("flops")]  # older rows have none
    head = ("model", "ms", *(f"/ {title}" for title in PEERS.values()),
            *["of the peak"][: len(peak)], "outputs within", "compiling, CPU s",
            "offloaded")  # fmt: skip
    lines = []
    for row in rows:
        times = row.get("milliseconds", {})
        ours = times.get("opinfo")
        if ours is None:
            lines.append((f"`{row['name']}`", *[""] * (len(head) - 2), _cell(row["refusal"])))
            continue
        ratios = (f"{ours / times[p]:.2f}" if p in times else "" for p in PEERS)
        summary = _cell(TIMES.sub(r"\1", row["summary"]))
        lines.append((f"`{row['name']}`", f"{ours:.3g}", *ratios, *[_of_peak(row)][: len(peak)],
                      f"{row['difference']:.0e}", f"{row['seconds']:.0f}", summary))  # fmt: skip
    return table(head, lines)


def _of_peak(row: Row) -> str:
    if not row.get("flops"):
        return ""
    return f"{1e3 * row['flops'] / row['milliseconds']['opinfo'] / row['rate']:.0%}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def cpu_name() -> str:
    """Return the CPU's name and its widest vectors."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    isa = "AVX-512" if "avx512f" in fields["flags"] else "AVX2"
    amx = ", AMX" if "amx_tile" in fields["flags"] else ""
    return f"{fields['model name']} ({isa}{amx})"


def _machine(rows: Sequence[Row]) -> str:
    packages = ("apache-tvm", "onednn-devel-cpu-gomp", "onnxruntime", "openvino", "torch")
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    cpus = sorted({row["cpu"] for row in rows})
    return f"{'; '.join(cpus)}; Python {platform.python_version()}, {', '.join(versions)}."
