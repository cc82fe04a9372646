"""The page of what `python -m benchmarks.layout_growth` measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import Any

HEAD = """# Time and memory of planning layouts

Written by `python -m benchmarks.layout_growth --page`.

CPU and wall seconds of `plan_layout` with `nn.conv2d` requested in `NHWC OHWI`: reading the
function, analysing each PrimFunc, building and solving the problem, rewriting with proof, building
the planned module. Each row comes from its own process, which has planned a small graph before. In
an *equal* graph all blocks have the same shape; in a *distinct* one each has its own width, so
nearly every call has its own PrimFunc; in a *symbolic* one the batch is a variable. Memory is the
growth of the process from before the plan to its peak. The machine has 2 shared cores: CPU times
differ by a third from run to run.

"""
LADDER = """
*residual*: convolutions with a shortcut. *shuffle*: convolutions around channel shuffles, two
reshapes and a transpose in each. *transformer*: attention of four heads, four transposes in each.
*ladder*: two chains connected by rungs, one of which reads a transposed value. No value is fixed,
so the problem is a single part whose relaxation is entirely fractional
([decision 15](../adr/0015-one-problem-solved-to-optimality.md)).

A growth of 1 is linear: the exponent k of time ~ ops^k between the smallest and the largest
graph.
"""

Row = Mapping[str, Any]


def page(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    models = [r for r in rows if r["kind"] == "model"]
    graphs = [r for r in rows if r["kind"] != "model"]
    parts = [HEAD]
    if models:
        parts += ["## ResNet-50\n\n", _table(MODEL, map(_model, models)), "\n"]
    parts += ["## Graphs of growing size\n\n", _table(GRAPH, map(_graph, graphs)), LADDER]
    parts += ["\n", _table(("graph", "blocks", "sizes", "growth"), _growths(graphs))]
    largest = _largest(graphs)
    names = list(dict.fromkeys(k for r in largest for k in r["phases"] if k != "decide"))
    parts += [
        "\n## Where the CPU time of the largest graphs goes\n\n",
        _table(
            ("graph", "blocks", *names),
            ([r["net"], r["kind"], *(f"{r['phases'].get(k, 0):.2f}" for k in names)]
             for r in largest),
        ),
    ]  # fmt: skip
    return "".join(parts)


MODEL = ("model", "ops", "PrimFuncs", "first plan", "again", "ConvertLayout + LegalizeOps",
         "ratio", "solver", "peak memory")  # fmt: skip
GRAPH = ("graph", "blocks", "ops", "PrimFuncs", "CPU s", "wall s", "ms an op", "solver",
         "conversions", "peak memory")  # fmt: skip


def _model(row: Row) -> list[str]:
    comparable = row["ratio"] is not None
    tvm = f"{row['tvm']:.2f} s" if comparable else row["tvm"]
    return [row["net"], str(row["ops"]), str(row["prim_funcs"]), f"{row['seconds']:.2f} s",
            f"{row['again']:.2f} s", tvm, f"{row['ratio']:.2f}" if comparable else "-",
            _solver(row), _memory(row)]  # fmt: skip


def _graph(row: Row) -> list[str]:
    return [row["net"], row["kind"], f"{row['ops']:,}", f"{row['prim_funcs']:,}",
            f"{row['seconds']:.1f}", f"{row['wall']:.1f}",
            f"{1e3 * row['seconds'] / row['ops']:.2f}",
            _solver(row), str(row["conversions"]), _memory(row)]  # fmt: skip


def _solver(row: Row) -> str:
    return f"{row['status']}, gap {row['gap']:g}"


def _memory(row: Row) -> str:
    return f"{row['peak_growth_mib']:.0f} MiB"


def growth(rows: Sequence[Row]) -> float:
    """Return the exponent of time over ops between the smallest and the largest graph."""
    smallest, largest = rows[0], rows[-1]
    return log(largest["seconds"] / smallest["seconds"]) / log(largest["ops"] / smallest["ops"])


def _families(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    out: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda r: r["ops"]):
        out.setdefault((row["net"], row["kind"]), []).append(row)
    return out


def _growths(rows: Sequence[Row]) -> list[list[str]]:
    return [[*key, f"{family[0]['ops']:,} to {family[-1]['ops']:,}", f"{growth(family):.2f}"]
            for key, family in sorted(_families(rows).items()) if len(family) > 1]  # fmt: skip


def _largest(rows: Sequence[Row]) -> list[Row]:
    return [family[-1] for _, family in sorted(_families(rows).items())]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
