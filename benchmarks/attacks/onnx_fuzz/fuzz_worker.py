"""The process that generates, compiles and compares: `python -m benchmarks.onnx_fuzz.fuzz_worker`.

Each input line is JSON, ``{"seed": 5, "ways": ["tvm"]}``, or has a ``"file"`` instead of a seed;
the answer has a row for each way. The file ``phase`` says what was under way when it died, and
``log`` has what libraries printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from . import model_verdict, random_model
from .graphs import runtime
from .ways import SYMBOLIC, WAYS, WrongType

#: What an error of a model should name.
PLACE = re.compile(r"node '|the node of '|the tensor '|the weight '|input '|output '|operator set")
#: What TVM writes into its own errors.
FOREIGN = re.compile(r"Check failed|InternalError|TVMError|Traceback|tvm::|\.cc:|\.py\"|\n")


def main() -> int:
    """Answer lines until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    folder = Path(sys.argv[1])
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)  # compilers and libraries print warnings
    os.dup2(log, 2)
    warnings.simplefilter("ignore")
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps({"rows": rows(job, folder)}), file=answers, flush=True)
    return 0


def rows(job: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return a row for each way of a job."""
    phase = folder / "phase"
    phase.write_text("generate")
    if "file" in job:
        path = Path(job["file"])
        model = random_model.saved(path)
    else:
        path = folder / "model.onnx"
        model = random_model.model(job["seed"], job.get("nodes", 0))
        model.save(path)
    try:
        wanted = [runtime.run(model.proto, feed) for feed in model.feeds]
    except Exception as error:  # ONNX Runtime takes each node, but not the model
        return [_row(job, "", "no oracle", str(error), 0.0, 0)]
    out = []
    for way in job["ways"]:
        if way in SYMBOLIC and not model.is_symbolic:
            continue
        phase.write_text(way)
        start = time.process_time()
        verdict, why = tried(path, model, wanted, way)
        cpu = time.process_time() - start
        out.append(_row(job, way, verdict, why, cpu, len(model.proto.graph.node)))
    phase.write_text("done")
    return out


def _row(
    job: dict[str, Any], way: str, verdict: str, why: str, cpu: float, nodes: int
) -> dict[str, Any]:
    return {"seed": job.get("seed"), "way": way, "verdict": verdict, "why": why[:600],
            "cpu": round(cpu, 2), "nodes": nodes}  # fmt: skip


def tried(
    path: Path, model: random_model.Model, wanted: list[dict[str, Any]], way: str
) -> tuple[str, str]:
    """Compile and run in a way; return the verdict and the reason."""
    from opinfo import FrontendError

    try:
        results = WAYS[way](path, model)
    except FrontendError as error:
        text = str(error)
        plain = PLACE.search(text) and not FOREIGN.search(text)
        return ("refused" if plain else "refused badly"), text
    except WrongType as error:
        return "wrong", str(error)
    except Exception as error:  # compilers, libraries and runtimes raise various types
        return "raised", f"{type(error).__name__}: {error}"
    worst = "right", ""
    for k, got in enumerate(results):
        binding = k % len(model.feeds)
        found = model_verdict.verdict(model.proto, model.feeds[binding], got, wanted[binding])
        if found[0] == "wrong":
            return found
        worst = found if found[0] != "right" else worst
    return worst


if __name__ == "__main__":
    sys.exit(main())
