"""The plan of a function all of whose PrimFuncs have a proved form in it.

decide → a PrimFunc has no form in its layouts → that way is forbidden → decide → …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..analysis.results.op_info import OpInfo, Refusal
from ..analysis.support.progress import stage
from .apply.conversion import layouts_of
from .graph.relax_graph import Graph, Op, graph
from .model.layout import Layout
from .rewrite.rewrite import Rewriter, Rewritten, Still
from .search.alternatives import GIVEN, Choice, Kind
from .search.decide import Cost, Extend, Plan, decide
from .search.op_specs import Kinds
from .search.pins import Pins
from .search.solve import NoSolution

Mode = Literal["graph", "region", "tir"]

#: Plans that are made anew because a PrimFunc has no proved form in the layouts of the last one.
ROUNDS = 20


class Planner:
    """Plans the functions of a module one by one; what is proved once is not proved again."""

    def __init__(
        self, mod: Any, known: Kinds, mode: Mode, cost: Cost, pins: dict[str, str], seconds: float
    ) -> None:
        self.mod, self.all_kinds, self.mode = mod, known, mode
        self.cost, self.pins, self.seconds = cost, Pins(mod, pins), seconds
        self.kinds: dict[Op, Kind] = {}
        self.known: dict[Any, Rewritten | Still | Refusal] = {}
        self.analyse, self.rewriter = known.analyse, Rewriter(known.form)

    def plan(
        self, gvar: Any, found: Graph | None = None, extend: Extend | None = None
    ) -> tuple[Graph, Plan]:
        """The cheapest plan of a function all of whose PrimFuncs have a proved form."""
        found = found or graph(self.mod, self.mod[gvar])
        mine = self.all_kinds.of(found)
        self.kinds.update(mine)
        pins = self.pins.of(gvar, found)
        forbidden: dict[Op, frozenset[Choice]] = {}
        for _ in range(ROUNDS):
            strict = self.mode != "tir"
            try:
                plan = decide(found, mine, self.cost, pins, forbidden, self.seconds, strict,
                              extend)  # fmt: skip
            except NoSolution:
                break
            bad = self.refused(found, plan)
            if not bad:
                return found, plan
            for op, choice in bad:
                forbidden[op] = forbidden.get(op, frozenset()) | {choice}
        given = {op: Kind(None, "no plan was found") for op in found.ops}
        return found, decide(found, given, self.cost, pins, {}, self.seconds, extend=extend)

    def refused(self, found: Graph, plan: Plan) -> list[tuple[Op, Choice]]:
        """The ops that have no proved form in the layouts that the plan gives them."""
        out = []
        for k, (op, choice) in enumerate(plan.ways.items()):
            stage("proving layouts", k, len(plan.ways))
            layouts = layouts_of(plan.layouts(op))
            if self.kinds[op].replacement is not None and choice.why != GIVEN:
                continue
            loops = self.kinds[op].named and choice.why != GIVEN
            if not loops and not any(layouts):
                continue
            if isinstance(self.tried(op.func, layouts, found.shares(op)), Refusal):
                out.append((op, choice))
        return out

    def tried(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | Still | Refusal:
        """The proved form; none is needed where the result may be the operand's memory."""
        key = (func.__chandle__(), tuple(layouts), shares)
        if key not in self.known:
            named = self.all_kinds.known(func).named
            same = self.rewriter.still(func, layouts) if shares and not named else None
            if same is not None:
                return self.known.setdefault(key, Still(same))
            found = self.rewriter(func, layouts, "tiled" if named else "layout")
            if self.mode != "tir" and not isinstance(found, Refusal) and found.identity is None:
                found = self.operator(func, found)
            self.known[key] = found
        return self.known[key]

    def operator(self, func: Any, new: Rewritten) -> Rewritten | Refusal:
        """An operator stays an operator: in graph mode one that Relax can lower.

        In region mode it is enough that its attributes name the order of its axes.
        """
        before = self.analyse(func).info
        if not isinstance(before, OpInfo) or before.relaid:
            return new
        after = self.analyse(new.func).info
        if isinstance(after, OpInfo) and (
            not after.packed if self.mode == "region" else not after.relaid
        ):
            if before.name == after.name or self.all_kinds.known(func).moves:
                return new
        return Refusal(f"{before.name} is no Relax operator in these layouts")

    def rewritten(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | Still:
        found = self.tried(func, layouts, shares)
        assert not isinstance(found, Refusal)
        return found
