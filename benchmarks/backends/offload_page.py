"""docs/results/offload.md: what backends take before lowering, and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.pages import table

HEAD = """# Operators that backends take, before and after lowering

Written by `python -m benchmarks.offload --json FILE --page`. **Before** counts the
matches of a backend's patterns among the imported Relax operators, with names and attributes from
the calls. **After** counts the matches of the same patterns in the lowered module, with operators
recovered from PrimFuncs and layouts planned for the backend. Each backend is used alone with TVM;
the NVIDIA backends only match. Operators are counted in each module's own form: a batch
normalisation with known statistics is one operator before lowering, which no backend takes, and two
after it, a product and a sum. Transposes do not count, because planning removes some and adds
others. A row passes if it has at least as much after as before, by number or by share within 0.1%.

"""
COLUMNS = ("model", "backend", "ops before", "ops after", "FLOPs before", "FLOPs after")


def page(rows: Sequence[Row], chains: Mapping[str, Sequence[str]], order: Sequence[str]) -> str:
    """Return the page: chains, then the models in the order of ``order``."""
    where = {name: k for k, name in enumerate(order)}
    rows = sorted(rows, key=lambda r: where.get(r.model, len(where)))
    whole_chains = sum(map(bool, chains.values()))
    fewer = [r.as_line() for r in rows if not r.good]
    listing = "".join(f"\n- {t}" for t in fewer)
    return (f"{HEAD}## Chains\n\n{whole_chains} of {len(chains)} graphs are taken whole, "
            f"as one region:\n\n"
            f"{table(('graph', 'by'), [(n, ', '.join(b)) for n, b in chains.items()])}\n\n"
            f"## Models\n\n{len(rows) - len(fewer)} of {len(rows)} rows have at least as much "
            f"after as before, of operators and of FLOPs.{listing}\n\n"
            f"{table(COLUMNS, [_line(r) for r in rows])}\n")  # fmt: skip


def _line(row: Row) -> tuple[str, ...]:

    counts = (f"{a} of {b}" for a, b in (row.ops_before, row.ops_after))
    shares = (f"{share(f):.1%}" for f in (row.flops_before, row.flops_after))
    return (row.model, row.backend, *counts, *shares)


@dataclass(frozen=True)
class Row:
    """Operators except `MOVES`, and FLOPs: matched and total, before and after lowering."""

    model: str
    backend: str
    ops_before: tuple[int, int]
    ops_after: tuple[int, int]
    flops_before: tuple[int, int]
    flops_after: tuple[int, int]

    @property
    def good(self) -> bool:
        """Whether as much is matched after, by number or by share, as the totals change too."""
        both = ((self.ops_before, self.ops_after), (self.flops_before, self.flops_after))
        return all(b[0] >= a[0] or share(b) >= share(a) - 1e-3 for a, b in both)

    def as_line(self) -> str:
        fewer = "" if self.good else ", fewer"
        return (f"{self.model}, {self.backend}: {_part(self.ops_before)} → "
                f"{_part(self.ops_after)} ops, {share(self.flops_before):.1%} → "
                f"{share(self.flops_after):.1%} of FLOPs{fewer}")  # fmt: skip


def share(part: Sequence[int]) -> float:
    return part[0] / part[1] if part[1] else 1.0


def _part(part: Sequence[int]) -> str:
    return f"{part[0]} of {part[1]}"
