"""Count what backends take of models, before lowering and after.

    python -m benchmarks.offload [--backend NAME,...] [--json FILE] [--page [FILE]] [MODEL ...]

**before** is what a backend's patterns match of the Relax operators that were imported, names and
attributes taken from the calls, constants computed as they are after; nothing is lowered, and
layouts are as they are. **after** is what the same patterns match of the lowered module, where
operators are recovered from PrimFuncs, with its layouts planned for the backend. A backend is alone
with TVM each time. NVIDIA's are matched only, so no GPU is needed. The exit status is 1 where less
is matched after than before, of the operators or of the FLOPs, by number and by share, or one of
the chains of `tests.byoc.chains` is not taken whole.
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
from tests.byoc.chains import CHAINS

#: Operators that planning removes and adds: they are not counted.
MOVES = ("relax.permute_dims", "relax.layout_transform")
BACKENDS = ("onednn", "blas", "onnxruntime", "cublaslt", "cudnn", "cutlass", "tensorrt")


def matching(name: str) -> Backend:
    """The backend, also where its library is not: it generates nothing."""
    return replace(find(name), available=lambda: None, convert=lambda regions: Code(
        "", tuple(r.symbol for r in regions)))  # fmt: skip


def before(found: Lowered, backend: Backend) -> tuple[tuple[int, int], tuple[int, int]]:
    """Operators and FLOPs that the best regions have of a module that is not lowered."""
    rules = MatchRules({backend.name: 3}, {})
    best = choose_regions(DispatchRequest(found, found, rules, [backend]))
    told = {op: flops(found.infos[op], op) for op in found.ops}
    taken = [op for m in best.matches for op in m.ops]
    mine, every = (sum(op.name not in MOVES for op in ops) for ops in (taken, told))
    return (mine, every), (sum(map(told.__getitem__, taken)), sum(told.values()))


def after(done: Dispatched) -> tuple[tuple[int, int], tuple[int, int]]:
    ops = sum(name not in MOVES for t in done.taken for name in t.ops)
    left = sum(o.op not in MOVES for o in done.left)
    return (ops, ops + left), (sum(t.flops for t in done.taken), done.total)


def compare(name: str, mod: Any, backends: Sequence[str]) -> list[Row]:
    """A row for each backend."""
    fold = [relax.transform.FoldConstant(), relax.transform.DeadCodeElimination()]
    original, lowered = unlowered(tvm.transform.Sequential(fold)(mod)), prepare(mod)
    rows = []
    for backend in map(matching, backends):
        one = before(original, backend)
        two = after(dispatch(lowered, [backend], layouts="best"))
        rows.append(Row(name, backend.name, one[0], two[0], one[1], two[1]))
    return rows


def load(name: str) -> Any:
    """Import the model's file as a module."""
    with tempfile.TemporaryDirectory() as folder:
        path, shapes = save(name, Path(folder))
        return opinfo.load(path, shapes)


def whole(name: str, backends: Sequence[str] = BACKENDS) -> list[str]:
    """Those of some backends that take all of a chain as one region."""
    mod = prepare(CHAINS[name].module())
    found = []
    for backend in map(matching, backends):
        done = dispatch(mod, [backend], layouts="best")
        if len(done.taken) == 1 and not done.left:
            found.append(backend.name)
    return found


def main() -> int:
    parser = model_parser("benchmarks.offload", __doc__, MODELS)
    parser.add_argument("--backend", default=",".join(BACKENDS))
    add_page_option(parser, "offload.md")
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json")
    warnings.simplefilter("ignore")
    chains = {name: whole(name) for name in CHAINS}
    for name, backends in chains.items():
        print(f"{name}: taken whole by {', '.join(backends) or 'none'}", flush=True)
    rows = []
    for name in options.model:
        for row in compare(name, load(name), options.backend.split(",")):
            rows.append(row)
            print(row.told(), flush=True)
            store_row(options.json, row, "model", "backend")
    if options.page:
        from benchmarks.backends.offload_page import page

        found = [Row(**r) for r in stored_rows(options.json)]
        options.page.write_text(page(found, chains, MODELS), encoding="utf-8")
    missed = [n for n, backends in chains.items() if CHAINS[n].backend not in backends]
    return 1 if missed or not all(r.good for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
