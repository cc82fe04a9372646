"""Count the layout conversions that the planner, ConvertLayout and ONNX Runtime leave.

    python -m benchmarks.layouts [--model NAME] [--run] [--packed] [--real] [--json FILE]
                                 [--page [FILE]]

`--run` also compiles every planned module and compares its outputs with the unplanned one's.
`--packed` also plans ResNet-50, the MobileNets and others for NCHW8c and NCHW16c, `--real` the
models of PP-OCRv4 and the light models of ONNX; `--page` does both. The exit status is 1 if another
way leaves fewer conversions of a model than the planner in tir mode.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm import relax

from benchmarks.common import nets
from benchmarks.common.pages import add_page_option
from tests.models import LIGHT, OCR

from .conversions import PACKED, Expected, Left, Row, measure, measure_real, plan
from .conversions_page import ahead, page

PACKED_MODELS = ("resnet50", *nets.CONVNETS, "mixed", "coatnet", "vit")


@dataclass
class Results:
    """The results so far, saved after every model because a run is long."""

    json: Path | None
    page: Path | None
    rows: list[Row] = field(default_factory=list)
    packed: dict[str, dict[str, Left | str]] = field(default_factory=dict)
    real: list[Row] = field(default_factory=list)

    def save(self) -> None:
        if self.json:
            packed = {n: {k: _json(v) for k, v in p.items()} for n, p in self.packed.items()}
            rows, real = ([asdict(r) for r in x] for x in (self.rows, self.real))
            values = {"rows": rows, "packed": packed, "real": real}
            self.json.write_text(json.dumps(values, indent=1) + "\n")
        if self.page:
            self.page.write_text(page(self.rows, self.packed, self.real), encoding="utf-8")


def main() -> int:
    options = _options()
    warnings.simplefilter("ignore")
    results = Results(options.json, options.page)
    for name in options.model or nets.NAMES:
        results.rows.append(measure(name, options.run))
        print(as_line(results.rows[-1]), flush=True)
        results.save()
    if options.packed or options.page:
        for name in options.model or PACKED_MODELS:
            plans = results.packed[name] = _packed(name, options.run)
            print(name, {k: _summary(v) for k, v in plans.items()}, flush=True)
            results.save()
    if options.real or (options.page and not options.model):
        for name in (*OCR, *LIGHT):
            results.real.append(measure_real(name, options.run and name in OCR))
            print(as_line(results.real[-1]), flush=True)
            results.save()
    behind = [r.model for r in results.rows if not ahead(r)]
    print(f"another method leaves fewer on: {', '.join(behind)}" if behind else "none leaves fewer")
    return 1 if behind else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=(*nets.NAMES, *nets.MORE))
    parser.add_argument("--run", action="store_true", help="compile and compare the outputs")
    parser.add_argument("--packed", action="store_true", help="plan for packed channels too")
    parser.add_argument("--real", action="store_true", help="plan PP-OCRv4 and light models too")
    parser.add_argument("--json", metavar="FILE", type=Path)
    add_page_option(parser, "layouts.md")
    return parser.parse_args()


def _packed(name: str, execute: bool) -> dict[str, Left | str]:
    lowered = relax.transform.LegalizeOps()(nets.module(name))
    expected = Expected(lowered, nets.inputs(name)) if execute else None
    return {text: plan(lowered, layouts, "tir", expected) for text, layouts in PACKED.items()}


def _json(outcome: Left | str) -> Any:
    return outcome if isinstance(outcome, str) else asdict(outcome)


def as_line(row: Row) -> str:
    """Format a row as one line."""
    plans = ", ".join(f"{mode} {_summary(p)}" for mode, p in row.planned.items())
    others = f"ConvertLayout {row.convert_layout.left!r}, ONNX Runtime {row.onnx_runtime!r}"
    return f"{row.model}: {row.before!r} in the model; {others}; planned: {plans}"


def _summary(outcome: Left | str) -> str:
    if isinstance(outcome, str):
        return outcome
    return (f"{outcome.conversions!r} ({outcome.status}, {outcome.seconds:.1f} s, "
            f"outputs {outcome.outputs})")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
