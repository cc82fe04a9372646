"""Compare the default choice with the tuned one.

    python -m benchmarks.gpu.tuning DIR NET-bN ... [--seconds 180]

Each model is compiled by expected costs and by measured ones; both are run in turns. Measuring ends
after some seconds. DIR keeps the times, so a run that was ended goes on. A row says how many
candidates were measured, and the milliseconds of both.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from ..build_model import BACKENDS, network

LIMIT = 30.0


def compared(folder: Path, name: str, seconds: float, dtype: str = "float16") -> dict[str, Any]:
    """Return the row of a model."""
    import tvm

    import opinfo
    from opinfo.byoc import Measure
    from opinfo.byoc.building.read_target import compile_target

    module, inputs = network(name, dtype)
    program = folder / f"{name}.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, strict=False), str(program))
    mod = opinfo.load(str(program))
    program.unlink()
    target: tvm.target.Target = compile_target("cuda")
    how = Measure(folder / "times.jsonl", target=str(target), timeout=LIMIT, repeat=5,
                  seconds=seconds)  # fmt: skip
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled = opinfo.compile(mod, list(BACKENDS), target=target, measure=how)
    assert compiled.dispatched is not None
    timings = compiled.dispatched.timings
    return {"name": name, "seconds": round(time.perf_counter() - begun, 1),
            "candidates": len(timings), "excluded": [str(t.result) for t in timings
                                                     if not hasattr(t.result, "microseconds")],
            "said": [str(w.message) for w in said if "measuring ended" in str(w.message)],
            "summary": compiled.dispatched.summary(), "kept": compiled.kept}  # fmt: skip


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tuning", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", metavar="NET-bN")
    parser.add_argument("--seconds", type=float, default=180.0)
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        row = compared(folder, name, options.seconds)
        (folder / f"{name}.tuned.json").write_text(json.dumps(row, indent=1))
        print("ROW", json.dumps({**row, "excluded": row["excluded"][:5]}), flush=True)


if __name__ == "__main__":
    main()
