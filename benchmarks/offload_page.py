"""docs/offload.md: what backends take before lowering, and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.layouts.page import table

if TYPE_CHECKING:
    from .offload import Row

HEAD = """# What backends take, before lowering and after

Written by `python -m benchmarks.offload --json FILE --page docs/offload.md`. **Before** is what a
backend's patterns match of the Relax operators that were imported, names and attributes taken from
the calls; **after** what the same patterns match of the lowered module, where operators are
recovered from PrimFuncs, with its layouts planned for the backend. A backend is alone with TVM each
time; those of NVIDIA's libraries are matched only. Operators are counted as they are there: before
lowering a batch normalisation of known statistics is one, which no backend has, after it two, a
factor and a sum. Transposes are not counted: planning removes some and adds others. A row has at
least as much after as before if it has by number, or by share within 0.1%.

"""
COLUMNS = ("model", "backend", "ops before", "ops after", "FLOPs before", "FLOPs after")


def page(rows: Sequence[Row], chains: Mapping[str, Sequence[str]], order: Sequence[str]) -> str:
    """Chains, then the models in their order."""
    where = {name: k for k, name in enumerate(order)}
    rows = sorted(rows, key=lambda r: where.get(r.model, len(where)))
    taken = sum(map(bool, chains.values()))
    fewer = [r.told() for r in rows if not r.good]
    told = "".join(f"\n- {t}" for t in fewer)
    return (f"{HEAD}## Chains\n\n{taken} of {len(chains)} graphs are taken whole, as one region:\n"
            f"\n{table(('graph', 'by'), [(n, ', '.join(b)) for n, b in chains.items()])}\n\n"
            f"## Models\n\n{len(rows) - len(fewer)} of {len(rows)} rows have at least as much "
            f"after as before, of operators and of FLOPs.{told}\n\n"
            f"{table(COLUMNS, [_line(r) for r in rows])}\n")  # fmt: skip


def _line(r: Row) -> tuple[str, ...]:
    from .offload import share

    counts = (f"{a} of {b}" for a, b in (r.ops_before, r.ops_after))
    shares = (f"{share(f):.1%}" for f in (r.flops_before, r.flops_after))
    return (r.model, r.backend, *counts, *shares)
