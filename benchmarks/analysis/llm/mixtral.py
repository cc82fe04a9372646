"""Run a Mixtral of MLC-LLM on a CPU, without names, with and without backends.

    python -m benchmarks.llm.mixtral [--json FILE] [--keep FOLDER] [--build NAME ...]
                                     [--page [FILE]] [MODEL ...]

A model has two layers and weights of q4f16_1. Its module is the last one of MLC-LLM's pipeline for
CUDA, which `benchmarks.llm` makes; all names are stripped. Each build is compiled and run in a
process of its own. Its logits, after a prompt and after each of some steps, are compared with numpy
in float32. A row in FILE is not measured again; ``--page`` writes all rows to their part of the
page. Exits with 1 if a logit is too far off. MLC-LLM's Python is taken from the checkout in the
folder that the environment variable ``MLC_LLM_HOME`` names; modules in the folder of ``--keep``
need none.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.analysis.llm.mixtral_page import Row, write_section
from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import family_seconds, use_threads
from benchmarks.common.rows import model_parser, run_worker, store_row, stored_rows

NAME = "benchmarks.analysis.llm.mixtral"
MODELS = ("mixtral", "mixtral-wide")
QUANTIZATION, LAST = "q4f16_1", "last"
#: Backends by the name of a build.
BUILDS: Mapping[str, Sequence[str] | None] = {
    "experts, weight_only": ("experts", "weight_only"),
    "default": None,
    "TVM": (),
}
#: Tokens of the prompt, steps whose logits are compared, and calls that are timed.
PROMPT, STEPS, CALLS = 24, 8, 20
#: With these weights, no two experts are so close that float16 would choose the other one.
SEED = 0
MISSING = "skipped: clone {url} and set {home} to its folder, or name a folder of modules by --keep"


def module_file(model: str, folder: Path) -> Path | None:
    """Return the file of a module, which is made if it is missing; None without a checkout."""
    from benchmarks.analysis.llm.checkout import checkout
    from benchmarks.analysis.llm.mlc_modules import make

    path = folder / f"{model}.{QUANTIZATION}.{LAST}.json"
    if not path.exists() and checkout() is not None:
        make(model, QUANTIZATION, folder, LAST)
    return path if path.exists() else None


def measure(model: str, build: str, file: Path) -> Row:
    """Compile the module in a file, and run it."""
    import numpy as np

    import opinfo
    from benchmarks.analysis.llm.mixtral_model import Sizes, exact, parameters, random_weights
    from benchmarks.analysis.llm.mixtral_steps import Steps, slowest, timed
    from benchmarks.analysis.llm.mlc_modules import CONFIGS, load
    from opinfo.testing.strip import strip_module

    mod = strip_module(load(file))
    start = family_seconds()
    compiled = opinfo.compile(mod, BUILDS[build], race=False)
    seconds = family_seconds() - start
    sizes = Sizes.of(CONFIGS[model])
    weights = random_weights(sizes, SEED)
    ids = np.random.default_rng(SEED).integers(0, sizes.vocabulary, PROMPT + CALLS, dtype="int32")
    expected = exact(sizes, weights, ids[: PROMPT + STEPS])
    arrays = parameters(weights)
    prompts = []
    for _ in range(2):  # the second prompt finds its memory allocated
        steps = Steps(compiled.library, CONFIGS[model], arrays)
        prompts.append(timed(steps, "prefill", ids[:PROMPT]))
    calls = [timed(steps, "decode", ids[i : i + 1]) for i in range(PROMPT, PROMPT + CALLS)]
    apart = [float(np.abs(logits - right).max()) for (_, logits), right in zip(
        [prompts[-1], *calls[:STEPS]], expected.logits[PROMPT - 1 :], strict=True)]  # fmt: skip
    slow = slowest(steps, ids[-STEPS:])
    counts, shares = offloaded(compiled.dispatched)
    return Row(model, build, counts, shares, PROMPT, STEPS, CALLS, apart[0],
               float(np.max(apart[1:])),
               float(np.abs(expected.logits[PROMPT - 1 :]).max()), expected.margin, seconds,
               min(ms for ms, _ in prompts), min(ms for ms, _ in calls), slow)  # fmt: skip


def offloaded(dispatched: Any) -> tuple[dict[str, int], dict[str, float]]:
    """Return the operators and the shares of FLOPs by backend; none without backends."""
    if dispatched is None:
        return {}, {}
    operators, costs = Counter[str](), Counter[str]()
    for region in dispatched.taken:
        operators[region.backend] += len(region.ops)
        costs[region.backend] += region.flops
    shares = {name: cost / dispatched.total for name, cost in costs.items()}
    return {**operators, "tvm": len(dispatched.left)}, shares


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write the page."""
    parser = model_parser("benchmarks.llm.mixtral", __doc__, MODELS)
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="modules are kept there")
    parser.add_argument("--build", nargs="+", default=tuple(BUILDS), choices=tuple(BUILDS))
    add_page_option(parser, "llm.md")
    options = parser.parse_args(argv)
    rows = [Row(**r) for r in stored_rows(options.json)]
    measured = {(r.model, r.build) for r in rows}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for model in options.model:
            for build in options.build:
                if (model, build) in measured:
                    continue
                file = module_file(model, folder)
                if file is None:
                    from benchmarks.analysis.llm.checkout import HOME, URL

                    print(MISSING.format(url=URL, home=HOME))
                    return 0
                row = Row(**run_worker(NAME, model, build, str(file)))
                print(row.as_line(), flush=True)
                store_row(options.json, row, "model", "build")
                rows.append(row)
    if options.page and rows:
        write_section(options.page, sorted(rows, key=_place))
    return 0 if all(r.good for r in rows) else 1


def _place(row: Row) -> tuple[int, int]:
    """The place of a row on the page."""
    return MODELS.index(row.model), tuple(BUILDS).index(row.build)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        use_threads(1)
        print(json.dumps(asdict(measure(sys.argv[2], sys.argv[3], Path(sys.argv[4])))))
        sys.exit()
    sys.exit(main())
