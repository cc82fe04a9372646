"""Count what backends take of models, before lowering and after.

    python -m benchmarks.offload [--backend NAME,...] [--json FILE] [--page [FILE]] [MODEL ...]

**before** counts the matches of a backend's patterns among the imported Relax operators, with names
and attributes from the calls and constants folded; nothing is lowered, and layouts are unchanged.
**after** counts the matches in the lowered module, with operators recovered from PrimFuncs and
layouts planned for the backend. Each backend is used alone with TVM. NVIDIA's backends only match,
so no GPU is needed. Exits with 1 if fewer operators or FLOPs are matched after than before, both by
number and by share, or if a chain of `tests.byoc.dispatching.chains` is not taken as one region.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

import opinfo
from benchmarks.backends.offload_page import Row
from benchmarks.backends.unlowered import unlowered
from benchmarks.common.full_models import MODELS, save
from benchmarks.common.pages import add_page_option
from benchmarks.common.rows import model_parser, store_row, stored_rows
from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.flops import flops
from opinfo.byoc.dispatching.dispatch import Dispatched, choose_regions, dispatch
from opinfo.byoc.dispatching.dispatch_request import DispatchRequest
from opinfo.byoc.matching.lowered import Lowered
from opinfo.byoc.matching.match_rules import MatchRules
from opinfo.byoc.prepare.prepare import prepare
from tests.byoc.dispatching.chains import CHAINS

#: Operators that planning removes and adds, which are not counted.
MOVES = ("relax.permute_dims", "relax.layout_transform")
BACKENDS = ("onednn", "blas", "onnxruntime", "cublaslt", "cudnn", "cutlass", "tensorrt")


def matching(name: str) -> Backend:
    """Return a backend that matches without its library, and generates no code."""
    return replace(find(name), available=lambda: None, convert=lambda regions: Code(
        "", tuple(r.symbol for r in regions)))  # fmt: skip


def before(module: Lowered, backend: Backend) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the operators and FLOPs, matched and total, of a module that is not lowered."""
    rules = MatchRules({backend.name: 3}, {})
    best = choose_regions(DispatchRequest(module, module, rules, [backend]))
    costs = {op: flops(module.infos[op], op) for op in module.ops}
    matched = [op for m in best.matches for op in m.ops]
    counted, every = (sum(op.name not in MOVES for op in ops) for ops in (matched, costs))
    return (counted, every), (sum(map(costs.__getitem__, matched)), sum(costs.values()))


def after(dispatched: Dispatched) -> tuple[tuple[int, int], tuple[int, int]]:
    ops = sum(name not in MOVES for t in dispatched.taken for name in t.ops)
    remaining = sum(o.op not in MOVES for o in dispatched.left)
    return (ops, ops + remaining), (sum(t.flops for t in dispatched.taken), dispatched.total)


def compare(name: str, mod: Any, backends: Sequence[str]) -> list[Row]:
    """Return a row for each backend."""
    fold = [relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()]
    original, lowered = unlowered(tvm.transform.Sequential(fold)(mod)), prepare(mod)
    rows = []
    for backend in map(matching, backends):
        unlowered_counts = before(original, backend)
        lowered_counts = after(dispatch(lowered, [backend], layouts="best"))
        rows.append(
            Row(
                name,
                backend.name,
                unlowered_counts[0],
                lowered_counts[0],
                unlowered_counts[1],
                lowered_counts[1],
            )
        )
    return rows


def load(name: str) -> Any:
    """Import the model's file as a module."""
    with tempfile.TemporaryDirectory() as folder:
        path, shapes = save(name, Path(folder))
        return opinfo.load(path, shapes)


def backends_taking(name: str, backends: Sequence[str] = BACKENDS) -> list[str]:
    """Return the backends that take all of a chain as one region."""
    mod = prepare(CHAINS[name].module())
    names = []
    for backend in map(matching, backends):
        dispatched = dispatch(mod, [backend], layouts="best")
        if len(dispatched.taken) == 1 and not dispatched.left:
            names.append(backend.name)
    return names


def main() -> int:
    parser = model_parser("benchmarks.offload", __doc__, MODELS)
    parser.add_argument("--backend", default=",".join(BACKENDS))
    add_page_option(parser, "offload.md")
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json")
    warnings.simplefilter("ignore")
    chains = {name: backends_taking(name) for name in CHAINS}
    for name, backends in chains.items():
        print(f"{name}: taken whole by {', '.join(backends) or 'none'}", flush=True)
    rows = []
    for name in options.model:
        for row in compare(name, load(name), options.backend.split(",")):
            rows.append(row)
            print(row.as_line(), flush=True)
            store_row(options.json, row, "model", "backend")
    if options.page:
        from benchmarks.backends.offload_page import page

        stored = [Row(**r) for r in stored_rows(options.json)]
        options.page.write_text(page(stored, chains, MODELS), encoding="utf-8")
    missed = [n for n, backends in chains.items() if CHAINS[n].backend not in backends]
    return 1 if missed or not all(r.good for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
