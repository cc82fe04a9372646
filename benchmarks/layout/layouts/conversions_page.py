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
        (row.model, f"`{nets.INPUTS[row.model]}`", str(row.before.number), _converted(row),
         _number(row.onnx_runtime), INDUCTOR.get(row.model, "–"),
         *(_number(_outcome(row.planned.get(m))) for m in ("graph", "tir")), _optimal(row))
        for row in rows
    ])  # fmt: skip


def _bytes(rows: Sequence[Row]) -> str:
    head = ("model", "in the model", "ConvertLayout", "ONNX Runtime", "graph", "tir")
    return table(head, [
        (row.model, *map(_size, (row.before, row.convert_layout.left or "–", row.onnx_runtime,
                               *(_outcome(row.planned.get(m)) for m in ("graph", "tir")))))
        for row in rows
    ])  # fmt: skip


def _plans(rows: Sequence[Row]) -> str:
    """Return a table of the solver's result, the time and the outputs of each plan."""
    head = ("model", "mode", "status", "cost", "bound", "planning, CPU s", "LegalizeOps, CPU s",
            "outputs")  # fmt: skip
    lines = []
    for row in rows:
        for mode, plan in row.planned.items():
            if isinstance(plan, str):
                lines.append((row.model, mode, plan, "", "", "", "", ""))
                continue
            lines.append((row.model, mode, plan.status, f"{plan.objective:g}", f"{plan.bound:g}",
                          f"{plan.seconds:.1f}", f"{row.lowering:.1f}", plan.outputs))  # fmt: skip
    return table(head, lines)


def _packed(packed: Mapping[str, Mapping[str, Left | str]]) -> str:
    layouts = list(next(iter(packed.values())))
    return table(("model", *layouts), [
        (name, *(_number_and_size(_outcome(row[x])) for x in layouts))
        for name, row in packed.items()
    ])  # fmt: skip


def _real(rows: Sequence[Row]) -> str:
    head = ("model", "in the model", "ConvertLayout", "graph", "tir", "planning, CPU s",
            "LegalizeOps, CPU s", "outputs")  # fmt: skip
    lines = []
    for row in rows:
        tir = row.planned.get("tir")
        cells = (
            (f"{tir.seconds:.1f}", f"{row.lowering:.1f}", tir.outputs)
            if isinstance(tir, Left)
            else ("", "", "")
        )
        lines.append(
            (
                row.model,
                str(row.before.number),
                _converted(row),
                *(_number(_outcome(row.planned.get(m))) for m in ("graph", "tir")),
                *cells,
            )
        )
    return table(head, lines)


def _outcome(plan: Left | str | None) -> Conversions | str:
    return plan.conversions if isinstance(plan, Left) else plan or "–"


def _number(conversions: Conversions | str) -> str:
    return str(conversions.number) if isinstance(conversions, Conversions) else conversions


def _number_and_size(conversions: Conversions | str) -> str:
    return (
        f"{conversions.number} ({size(conversions.bytes)})"
        if isinstance(conversions, Conversions)
        else conversions
    )


def _size(conversions: Conversions | str) -> str:
    return size(conversions.bytes) if isinstance(conversions, Conversions) else "–"


def _converted(row: Row) -> str:
    converted = row.convert_layout
    parts = [str(converted.left.number)] if converted.left is not None else []
    return ", ".join([*parts, *([converted.problem] if converted.problem else [])])


def _optimal(row: Row) -> str:
    plans = [p for p in row.planned.values() if isinstance(p, Left)]
    return "yes" if plans and all(p.optimal for p in plans) else "no"


def ahead(row: Row) -> bool:
    """Return whether no other measured method leaves fewer conversions."""
    plan = row.planned.get("tir")
    others = [c.number for c in (row.convert_layout.left, row.onnx_runtime)
              if isinstance(c, Conversions)]  # fmt: skip
    return isinstance(plan, Left) and all(plan.conversions.number <= n for n in others)
