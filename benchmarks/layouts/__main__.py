"""Layout conversions left on real models: by the planner, ConvertLayout and ONNX Runtime.

    python -m benchmarks.layouts [--model NAME] [--run] [--packed] [--real] [--json FILE]
                                 [--page FILE]

`--run` also compiles every planned module and compares its outputs with the unplanned one's.
`--packed` also plans ResNet-50, the MobileNets and others for NCHW8c and NCHW16c, `--real` the
models of PP-OCRv4 and the light models of ONNX; `--page` does both. The exit status is 1 if another
way leaves fewer conversions of a model than the planner in tir mode.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvm import relax

from benchmarks.measure import write
from tests.models import LIGHT, OCR

from . import models
from .measure import PACKED, Expected, Left, Row, measure, measure_real, plan
from .page import ahead, page

PACKED_MODELS = ("resnet50", "resnet18", "mobilenet_v2", "mobilenet_v3", "shufflenet")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--model", action="append", choices=models.NAMES)
    parser.add_argument("--run", action="store_true", help="compile and compare the outputs")
    parser.add_argument("--packed", action="store_true", help="plan for packed channels too")
    parser.add_argument("--real", action="store_true", help="plan PP-OCRv4 and light models too")
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the tables as Markdown")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.model or models.NAMES:
        rows.append(measure(name, options.run))
        print(told(rows[-1]), flush=True)
    packed = {}
    if options.packed or options.page:
        packed = {n: _packed(n, options.run) for n in options.model or PACKED_MODELS}
        for name, found in packed.items():
            print(name, {k: _told(v) for k, v in found.items()}, flush=True)
    real = []
    if options.real or (options.page and not options.model):
        for name in (*OCR, *LIGHT):
            real.append(measure_real(name, options.run and name in OCR))
            print(told(real[-1]), flush=True)
    if options.json:
        told_packed = {n: {k: _json(v) for k, v in p.items()} for n, p in packed.items()}
        write(
            options.json,
            {
                "rows": [asdict(r) for r in rows],
                "packed": told_packed,
                "real": [asdict(r) for r in real],
            },
        )
    if options.page:
        options.page.write_text(page(rows, packed, real))
    behind = [r.model for r in rows if not ahead(r)]
    print(f"another way leaves fewer on: {', '.join(behind)}" if behind else "none leaves fewer")
    return 1 if behind else 0


def _packed(name: str, execute: bool) -> dict[str, Left | str]:
    lowered = relax.transform.LegalizeOps()(models.module(name))
    expected = Expected(lowered, models.inputs(name)) if execute else None
    return {text: plan(lowered, want, "tir", expected) for text, want in PACKED.items()}


def _json(p: Left | str) -> Any:
    return p if isinstance(p, str) else asdict(p)


def told(row: Row) -> str:
    """A row as one line."""
    plans = ", ".join(f"{mode} {_told(p)}" for mode, p in row.planned.items())
    others = f"ConvertLayout {row.convert_layout.left!r}, ONNX Runtime {row.onnx_runtime!r}"
    return f"{row.model}: {row.before!r} in the model; {others}; planned: {plans}"


def _told(p: Left | str) -> str:
    if isinstance(p, str):
        return p
    return f"{p.conversions!r} ({p.status}, {p.seconds:.1f} s, outputs {p.outputs})"


if __name__ == "__main__":
    sys.exit(main())
