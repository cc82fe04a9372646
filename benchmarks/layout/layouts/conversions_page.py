"""The measured rows as tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.common import nets
from benchmarks.common.pages import table
from opinfo.layout.report.plan_report import Conversions, size

from .conversions import Left, Row
from .inductor import INDUCTOR

HEAD = """# Layout conversions left

Written by `python -m benchmarks.layouts --page`.

The number of layout conversions of activations left when every `conv2d` requires NHWC with kernels
in OHWI, and the bytes that they write. A conversion is a copy that changes the order of elements in
memory, in any operator or PrimFunc, alone or as a block of a fused one (`opinfo.layout.count`).
Dead code and conversions of constants do not count.

- **in the model**: the conversions that the model contains before planning.
- **ConvertLayout**: `relax.transform.ConvertLayout`, then `LegalizeOps`.
- **ONNX Runtime**: its transpose optimiser at the extended level, on the model exported as ONNX,
  each Conv in NHWC between two transposes.
- **inductor**: measured earlier, not by this command, on models of the same structure.
- **graph**, **tir**: `opinfo.layout.plan_layout` after `LegalizeOps`; in graph mode every operator
  stays a Relax operator. **optimal** says that the solver proved that no plan of the problem is
  cheaper.
"""

PACKED = """\
Conversions left in tir mode when every `conv2d` requires packed channels. The first convolution
has three input channels, and some widths are not divisible.

ShuffleNet's units split what they interleave into halves: 29 of 58 channels continue, then 14 or 15
of these. Blocks of 8 or 16 align with none of these splits, so each unit packs the input of its
convolutions and unpacks the inputs of its concatenations. That is the optimum of the problem; four
times as many candidates for each value would save 2% of the bytes. If the channels of each
convolution were sorted by the unit that reads them next (29, 15, 7 and 7 of 58, each in separate
blocks), whole blocks could be copied, but digits of a channel index cannot express this order.
"""


REAL = """\
Real graphs at their original input sizes; every `conv2d` requires NHWC. PP-OCRv4 has its original
weights.
"""


def page(
    rows: Sequence[Row],
    packed: Mapping[str, Mapping[str, Left | str]],
    real: Sequence[Row] = (),
) -> str:
    parts = [HEAD, "## Numbers\n", _numbers(rows), "\n## Bytes\n", _bytes(rows)]
    parts += ["\n## Plans\n", _plans(rows)]
    if packed:
        parts += ["\n## Packed layouts\n", PACKED, _packed(packed)]
    if real:
        parts += ["\n## PP-OCRv4 and the ONNX light models\n", REAL, _real(real)]
    return "\n".join(parts) + "\n"


def _numbers(rows: Sequence[Row]) -> str:
    head = ("model", "input", "in the model", "ConvertLayout", "ONNX Runtime", "inductor",
            "graph", "tir", "optimal")  # fmt: skip
    return table(head, [
        (r.model, f"`{nets.INPUTS[r.model]}`", str(r.before.number), _converted(r),
         _number(r.onnx_runtime), INDUCTOR.get(r.model, "–"),
         *(_number(_left(r.planned.get(m))) for m in ("graph", "tir")), _optimal(r))
        for r in rows
    ])  # fmt: skip


def _bytes(rows: Sequence[Row]) -> str:
    head = ("model", "in the model", "ConvertLayout", "ONNX Runtime", "graph", "tir")
    return table(head, [
        (r.model, *map(_size, (r.before, r.convert_layout.left or "–", r.onnx_runtime,
                               *(_left(r.planned.get(m)) for m in ("graph", "tir")))))
        for r in rows
    ])  # fmt: skip


def _plans(rows: Sequence[Row]) -> str:
    """Of each plan what the solver says, its time and its outputs."""
    head = ("model", "mode", "status", "cost", "bound", "planning, CPU s", "LegalizeOps, CPU s",
            "outputs")  # fmt: skip
    lines = []
    for r in rows:
        for mode, p in r.planned.items():
            if isinstance(p, str):
                lines.append((r.model, mode, p, "", "", "", "", ""))
                continue
            lines.append((r.model, mode, p.status, f"{p.objective:g}", f"{p.bound:g}",
                          f"{p.seconds:.1f}", f"{r.lowering:.1f}", p.outputs))  # fmt: skip
    return table(head, lines)


def _packed(packed: Mapping[str, Mapping[str, Left | str]]) -> str:
    layouts = list(next(iter(packed.values())))
    return table(("model", *layouts), [
        (name, *(_number_and_size(_left(row[x])) for x in layouts)) for name, row in packed.items()
    ])  # fmt: skip


def _real(rows: Sequence[Row]) -> str:
    head = ("model", "in the model", "ConvertLayout", "graph", "tir", "planning, CPU s",
            "LegalizeOps, CPU s", "outputs")  # fmt: skip
    lines = []
    for r in rows:
        tir = r.planned.get("tir")
        told = (
            (f"{tir.seconds:.1f}", f"{r.lowering:.1f}", tir.outputs)
            if isinstance(tir, Left)
            else ("", "", "")
        )
        lines.append(
            (
                r.model,
                str(r.before.number),
                _converted(r),
                *(_number(_left(r.planned.get(m))) for m in ("graph", "tir")),
                *told,
            )
        )
    return table(head, lines)


def _left(p: Left | str | None) -> Conversions | str:
    return p.conversions if isinstance(p, Left) else p or "–"


def _number(c: Conversions | str) -> str:
    return str(c.number) if isinstance(c, Conversions) else c


def _number_and_size(c: Conversions | str) -> str:
    return f"{c.number} ({size(c.bytes)})" if isinstance(c, Conversions) else c


def _size(c: Conversions | str) -> str:
    return size(c.bytes) if isinstance(c, Conversions) else "–"


def _converted(r: Row) -> str:
    found = r.convert_layout
    told = [str(found.left.number)] if found.left is not None else []
    return ", ".join([*told, *([found.problem] if found.problem else [])])


def _optimal(r: Row) -> str:
    plans = [p for p in r.planned.values() if isinstance(p, Left)]
    return "yes" if plans and all(p.optimal for p in plans) else "no"


def ahead(r: Row) -> bool:
    """Whether no other way, of those that were measured, leaves fewer conversions."""
    plan = r.planned.get("tir")
    others = [c.number for c in (r.convert_layout.left, r.onnx_runtime)
              if isinstance(c, Conversions)]  # fmt: skip
    return isinstance(plan, Left) and all(plan.conversions.number <= n for n in others)
