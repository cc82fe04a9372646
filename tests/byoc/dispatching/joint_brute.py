"""The cheapest layouts and regions of a small module by trying all of them; shares no solver."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.match import Match
from opinfo.byoc.backend.region import Region
from opinfo.byoc.dispatching.choice.with_layouts import BYTES, RegionVariables
from opinfo.byoc.matching.lowered import Lowered, read
from opinfo.byoc.matching.match_rules import MatchRules
from opinfo.byoc.patterns.pattern import Node, Pattern, many, maybe, one
from opinfo.layout.graph.relax_graph import Op
from opinfo.layout.planner import Planner
from opinfo.layout.search.function_plan import SearchSpace, bytes_moved
from opinfo.layout.search.op_specs import OpSpecs

from ...layout.brute import Prices, cost_of
from ...layout.random_graphs import Case

LIMIT = 3_000
POINTWISE = tuple(f"relax.{n}" for n in (
    "add", "multiply", "subtract", "maximum", "minimum", "nn.relu", "exp", "tanh", "sigmoid",
    "negative", "clip", "nn.gelu", "nn.silu",
))  # fmt: skip


def innermost(node: Node) -> str | None:
    """The channels of a convolution are its last axis."""
    layout = str(node.info.attrs["data_layout"])
    return None if layout.endswith("C") else f"data_layout is {layout}"


def priced(seed: int) -> Any:
    """Any cost, always the same of equal regions."""

    def cost(r: Region) -> float:
        text = repr((seed, [(c.op, c.result.shape) for c in r.calls]))
        return zlib.crc32(text.encode()) % 97 / 10

    return cost


def backends(seed: int) -> list[Backend]:
    """Three that overlap: one wants channels last, one any chains, one single operators."""

    def convert(regions: Sequence[Region]) -> Code:
        return Code("", tuple(r.symbol for r in regions))

    conv = ("relax.nn.conv2d", "relax.nn.conv1d")
    one_of = (*conv, "relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.matmul",
              "relax.nn.softmax", "relax.sum", "relax.mean")  # fmt: skip
    return [
        Backend("last", (Pattern("conv", one(conv, innermost), many(POINTWISE)),), convert,
                wants={"relax.nn.conv2d": ("NHWC", "OHWI"), "relax.nn.conv1d": ("NWC", "OWI")},
                cost=priced(seed)),
        Backend("chains", (Pattern("two", one(POINTWISE), maybe(POINTWISE)),), convert,
                cost=priced(seed + 1)),
        Backend("single", (Pattern("one", one(one_of)),), convert, cost=priced(seed + 2)),
    ]  # fmt: skip


def classes(seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    return {name: rng.choice((2, 2, 3)) for name in ("last", "chains", "single")}


def objectives(case: Case) -> tuple[float, float] | None:
    """What the plan of ``main`` costs, and the least of all plans; None if they are too many."""
    lowered = read(case.module, "test")
    gvar = next(g for g in lowered.functions if g.name_hint == "main")
    mine = backends(case.seed)
    known = OpSpecs({}, offers=[b.wants for b in mine])
    planner = Planner(case.module, known, "graph", bytes_moved, {}, 60.0)
    asked = MatchRules(classes(case.seed), {})
    regions = _Last(lowered, gvar, planner, mine, asked)
    _, plan = planner.plan(gvar, lowered.functions[gvar], regions)
    space = regions.space
    if math.prod(len(space.alternatives[op]) for op in space.graph.ops) > LIMIT:
        return None
    return plan.solution.objective, _least(lowered, regions, space, asked.classes)


class _Last(RegionVariables):
    """Keeps the last space."""

    space: SearchSpace

    def __call__(self, space: SearchSpace, made: Any, unit: float) -> None:
        self.space = space
        super().__call__(space, made, unit)


def _least(
    lowered: Lowered, regions: RegionVariables, space: SearchSpace, priority: Mapping[str, int]
) -> float:
    prices = Prices(space.candidates, bytes_moved)
    variants = regions.variants
    assert variants is not None
    levels = sorted(set(priority.values()), reverse=True)
    best: tuple[Any, ...] | None = None
    for chosen in product(*(space.alternatives[op] for op in space.graph.ops)):
        here = dict(zip(space.graph.ops, chosen, strict=True))
        base = cost_of(space.graph, chosen, prices)
        ways = {m: [variants.origins[op] for op in m.ops] for m in regions.matches}
        fitting = [m for m, mine in ways.items() if all(here[op] == way for op, way in mine)]
        for taken in _apart(fitting, frozenset()):
            ops = [(m, op.origin) for m in taken for op in m.ops if op.origin not in variants.idle]
            covered = tuple(-sum(priority[m.backend] == p for m, _ in ops) for p in levels)
            staying = sum(lowered.staying[op] for _, op in ops if op is not None)
            cost = base + BYTES * (sum(m.cost for m in taken) - staying)
            if best is None or (covered, cost) < best:
                best = covered, cost
    assert best is not None
    return float(best[1])


def _apart(matches: Sequence[Match], used: frozenset[Op | None]) -> Iterator[list[Match]]:
    """All sets of matches no two of which share an op."""
    if not matches:
        yield []
        return
    first, rest = matches[0], matches[1:]
    yield from _apart(rest, used)
    mine = frozenset(op.origin for op in first.ops)
    if not mine & used:
        for others in _apart(rest, used | mine):
            yield [first, *others]
