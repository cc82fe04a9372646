"""Recover the chains in fused PrimFuncs of real models, and compare with what was fused.

    python -m benchmarks.fused [--run N] [--json FILE] [MODEL ...]

Each model goes through `LegalizeOps`, `AnnotateTIROpPattern`, `FuseOps` and `FuseTIR`. Every fused
PrimFunc, stripped of its names, must yield the chain of operators, with attributes and dataflow,
that `op_info` gives for the calls inside the fused Relax function. `--run N` also computes N chains
of each model, operator by operator, and compares them with the compiled PrimFunc.

Some operators legalise to the same PrimFunc (`multiply(x, x)` and `square(x)`; `multiply(x,
sigmoid(x))` and `silu(x)`), so their readings count as equal (`canonical`).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from tvm import relax, tirx

from opinfo.analysis import Chain, Constant, OpInfo, StepResult
from opinfo.analysis.answer.analyser import analyser
from opinfo.analysis.answer.recovered import Recovered
from opinfo.analysis.chain import Chains
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.byoc.prepare.raising.raise_ops import call_sizes
from opinfo.testing.strip import strip
from tests import models
from tests.common.compose import NotComposed, _sizes, differs

#: An operator with its attributes and operands, as nested tuples: equal for equal dataflow.
Node = tuple[Any, ...]
Analyse = Callable[[Any], Recovered]
LARGEST = 300_000


@dataclass
class Measured:
    """One model: fused functions, chains found, chains equal to what was fused."""

    model: str
    functions: int = 0
    chains: int = 0
    same: int = 0
    operators: int = 0
    run: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def fused(mod: Any) -> Iterator[tuple[Any, Any, Any]]:
    """``(module before FuseTIR, fused Relax function, its PrimFunc)``."""
    lowered = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(mod))
    grouped = relax.transform.FuseOps()(lowered)
    prims = {g.name_hint: f for g, f in relax.transform.FuseTIR()(grouped).functions_items()}
    for gvar, func in grouped.functions_items():
        if isinstance(func, relax.Function) and (func.attrs or {}).get("Primitive"):
            yield grouped, func, prims[gvar.name_hint]


class Disagreement(Exception):
    """The expected operators are unknown, because one is not recognised before fusion."""


def truth(mod: Any, func: Any, analyse: Analyse) -> list[Node]:
    """The results of a fused Relax function as nodes over its parameters."""
    values: dict[Any, Any] = {p: k for k, p in enumerate(func.params)}
    for block in func.body.blocks:
        for binding in block.bindings:
            values[binding.var] = _node(mod, binding.value, values, analyse)
    body = func.body.body
    if hasattr(body, "fields"):
        return [values[v] for v in body.fields]
    several = len(body.ty.fields) if hasattr(body.ty, "fields") else 0
    return [(values[body], k) for k in range(several)] or [values[body]]


def _node(mod: Any, value: Any, values: dict[Any, Any], analyse: Analyse) -> Any:
    if type(value).__name__ == "TupleGetItem":
        return (values[value.tuple_value], value.index)
    if type(value).__name__ == "Var":
        return values[value]
    if type(value).__name__ == "Tuple":
        return tuple(values[v] for v in value.fields)
    recovered = analyse(mod[value.args[0]])
    info = recovered.info
    if not isinstance(info, OpInfo):
        raise Disagreement(repr(info))
    arguments = list(value.args[1].fields)
    sizes = call_sizes(recovered.params, arguments, value)
    operands = [o if isinstance(o, Constant) else values[arguments[o]] for o in info.operands]
    return canonical(info.name, _text(info.attrs, sizes), tuple(operands))


def read(chain: Chain) -> list[Node]:
    """The outputs of a chain as nodes over the PrimFunc's parameters."""
    results: list[Node] = []
    several = {
        operand.step
        for s in chain.steps
        for operand in s.buffers
        if isinstance(operand, StepResult)
        if operand.output
    }

    def value(operand: Any) -> Any:
        if not isinstance(operand, StepResult):
            return operand
        return (
            (results[operand.step], operand.output)
            if operand.step in several
            else results[operand.step]
        )

    for step in chain.steps:
        sizes = {v: v.name for a in step.attrs.values() for v in _sizes(a)}
        operands = tuple(map(value, step.operands))
        results.append(canonical(step.name, _text(step.attrs, _variables(sizes)), operands))
    return [value(operand) for operand in chain.outputs]


def _variables(sizes: Any) -> Any:
    return {v: tirx.Var(name, "int64") for v, name in sizes.items()}


def _text(attrs: Any, sizes: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, str(to_prim(v, sizes))) for k, v in attrs.items()))


def canonical(name: str, attrs: tuple[tuple[str, str], ...], operands: tuple[Any, ...]) -> Node:
    """Return one node for all operators that LegalizeOps lowers identically."""
    if name == "relax.multiply" and len(operands) == 2:
        x, y = operands
        if x == y:
            return ("relax.square", (), (x,))
        if y == ("relax.sigmoid", (), (x,)):
            return ("relax.nn.silu", (), (x,))
    return (name, attrs, operands)


def measure(name: str, run: int = 0) -> Measured:
    """Recover the chains of a model, and execute ``run`` of them."""
    row = Measured(name)
    chains, analyse = Chains(), analyser()
    for mod, func, prim in fused(models.module(name)):
        row.functions += 1
        bare = strip(prim)
        start = time.perf_counter()
        chain = chains(bare)
        row.seconds += time.perf_counter() - start
        if not isinstance(chain, Chain):
            row.refused.append(repr(chain)[:300])
            continue
        row.chains += 1
        row.operators += len(chain)
        before, after = _renamed(truth(mod, func, analyse)), _renamed(read(chain))
        if before == after:
            row.same += 1
        else:
            row.wrong.append(f"{before}\n  read as {after}")
        if row.run < run and _small(bare) and _agrees(bare, chain, row):
            row.run += 1
    return row


def _renamed(nodes: list[Node]) -> str:
    """Format nodes, with sizes named in order of occurrence."""
    names: dict[str, str] = {}
    text = repr(nodes)
    return re.sub(r"\b[vs]\d+\b", lambda m: names.setdefault(m[0], f"n{len(names)}"), text)


def _small(func: Any) -> bool:
    total = 1
    for param in func.params:
        count = 1
        for extent in getattr(param.ty, "shape", ()):
            count *= getattr(extent, "value", 2)
        total = max(total, count)
    return total <= LARGEST


def _agrees(func: Any, chain: Chain, row: Measured) -> bool:
    try:
        worst = differs(func, chain)
    except NotComposed:
        return False
    if worst > 1e-4:
        row.wrong.append(f"computes something else, by {worst:.1e}: {chain!r}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(models.NAMES))
    parser.add_argument("--run", type=int, default=0, metavar="N", help="compute N chains a model")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    console = Console(width=120)
    rows = []
    for name in options.models or models.NAMES:
        row = measure(name, options.run)
        rows.append(row)
        console.print(f"{name}: {row.chains}/{row.functions}, {row.same} the same", highlight=False)
        for problem in (*row.wrong, *row.refused):
            console.print(f"  {problem}", highlight=False, markup=False)
    table = Table("model", "fused", "chains", "same", "operators", "run", "wrong", "s")
    for result in rows:
        counts = (
            result.functions,
            result.chains,
            result.same,
            result.operators,
            result.run,
            len(result.wrong),
        )
        table.add_row(result.model, *map(str, counts), f"{result.seconds:.1f}")
    console.print(table)
    total, same = sum(r.functions for r in rows), sum(r.same for r in rows)
    wrong = sum(len(r.wrong) for r in rows)
    console.print(f"{same} of {total} fused functions ({same / max(total, 1):.2%}), {wrong} wrong")
    if options.json:
        with open(options.json, "w") as file:
            json.dump([asdict(r) for r in rows], file, indent=1)


if __name__ == "__main__":
    main()
