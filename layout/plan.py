"""Plan the layouts of a module: read, decide, rewrite with proof, write down why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm import relax, tirx

from ..analysis.op_info import OpInfo, Refusal
from .choices import GIVEN, Choice, Kind
from .convert import layouts_of
from .decide import OBJECTIVES, Cost, Plan, decide
from .explain import report
from .graph import Graph, Op, graph
from .kinds import Implementation, Kinds
from .layout import Layout
from .materialise import materialise
from .pins import Pins
from .report import Report
from .rewrite import Rewriter, Rewritten, Still
from .solve import NoSolution
from .unused import check_defined
from .wants import Desired, Wish, check, full

Mode = Literal["graph", "tir"]

#: Plans that are made anew because a PrimFunc has no proved form in the layouts of the last one.
ROUNDS = 20


@dataclass(frozen=True)
class Planned:
    """A module in its plan's layouts, and why they are these."""

    module: Any
    report: Report


def plan_layout(
    mod: Any,
    desired: Desired | str | None = None,
    *,
    mode: Mode = "tir",
    objective: str | Cost = "bytes",
    pins: Mapping[str, str] | None = None,
    implementations: Sequence[Implementation] = (),
    constants: int | None = None,
    seconds: float = 60.0,
) -> Planned:
    """The module with the cheapest layouts that are proved to compute the same.

    ``desired`` maps operators to the layouts of their operands (and of the result, else that of the
    first): ``{"nn.conv2d": ["NHWC", "OHWI"]}``; an empty list keeps an operator as it is. A
    string names an implementation, for one operator or for all that it has: ``"tvm-nhwc"`` is TIR
    with the output channel innermost, used where that saves more than its conversions cost. In
    ``graph`` mode each PrimFunc that is a Relax operator stays one; in ``tir`` mode everything may
    flow. ``objective`` is ``bytes``, ``count`` or a function of a value and the layout it is
    converted to. ``pins`` gives parameters, by name, another layout: the caller then passes them
    so. ``implementations`` are PrimFuncs to be used where they are proved to compute what an
    operator of that name does. ``constants`` bounds the bytes of further copies of constants in
    other layouts, ``seconds`` the solver, whose status the report tells. ``mod`` is a module after
    ``LegalizeOps``; it is not changed.

    Raises ``TypeError`` / ``ValueError`` for arguments that make no sense, before anything is done.
    """
    check_defined(mod, "plan_layout")
    wanted = check_arguments(desired, mode, objective)
    known = Kinds(wanted, implementations)
    planner = _Planner(mod, known, mode, _cost(objective), dict(pins or {}), seconds)
    plans = {g: planner.plan(g) for g, f in mod.functions_items() if isinstance(f, relax.Function)}
    planner.pins.check()
    out = materialise(mod, plans, planner.kinds, planner.rewritten, constants)
    return Planned(
        out, report(mod, out, [(graph, plan, planner.kinds) for graph, plan in plans.values()])
    )


def check_arguments(
    desired: Desired | str | None, mode: str, objective: str | Cost
) -> dict[str, Wish]:
    """The desired layouts by full operator name; raises for arguments that make no sense."""
    if mode not in ("graph", "tir"):
        raise ValueError(f"plan_layout: mode must be 'graph' or 'tir', got {mode!r}")
    _cost(objective)
    return check(desired or {})


def implementation(op: str, func: Any, layouts: Sequence[Layout | str | None]) -> Implementation:
    """A PrimFunc for an operator; a string names a layout, None one that stays as it is."""
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"ReplaceOpImpl: expected a tirx.PrimFunc, got {type(func).__name__}")
    if len(layouts) != len(func.params):
        raise ValueError(f"ReplaceOpImpl: {len(layouts)} layouts for {len(func.params)} parameters")
    made = []
    for p, x in zip(func.params, layouts, strict=True):
        buffer = hasattr(p.ty, "shape")
        if x is None:
            made.append(Layout.identity(len(p.ty.shape)) if buffer else None)
        else:
            made.append(Layout.parse(x) if isinstance(x, str) else x)
    return Implementation(full(op, "op"), func, tuple(made))


def _cost(objective: str | Cost) -> Cost:
    if callable(objective):
        return objective
    if objective not in OBJECTIVES:
        known = ", ".join(OBJECTIVES)
        raise ValueError(f"plan_layout: objective must be one of {known}, got {objective!r}")
    return OBJECTIVES[objective]


class _Planner:
    def __init__(
        self, mod: Any, known: Kinds, mode: Mode, cost: Cost, pins: dict[str, str], seconds: float
    ) -> None:
        self.mod, self.all_kinds, self.mode = mod, known, mode
        self.cost, self.pins, self.seconds = cost, Pins(mod, pins), seconds
        self.kinds: dict[Op, Kind] = {}
        self.known: dict[Any, Rewritten | Still | Refusal] = {}
        self.analyse, self.rewriter = known.analyse, Rewriter(known.form)

    def plan(self, gvar: Any) -> tuple[Graph, Plan]:
        """The cheapest plan of a function all of whose PrimFuncs have a proved form."""
        found = graph(self.mod, self.mod[gvar])
        mine = self.all_kinds.of(found)
        self.kinds.update(mine)
        pins = self.pins.of(gvar, found)
        forbidden: dict[Op, frozenset[Choice]] = {}
        for _ in range(ROUNDS):
            strict = self.mode == "graph"
            try:
                plan = decide(found, mine, self.cost, pins, forbidden, self.seconds, strict)
            except NoSolution:
                break
            bad = self.refused(found, plan)
            if not bad:
                return found, plan
            for op, choice in bad:
                forbidden[op] = forbidden.get(op, frozenset()) | {choice}
        given = {op: Kind(None, "no plan was found") for op in found.ops}
        return found, decide(found, given, self.cost, pins, {}, self.seconds)

    def refused(self, found: Graph, plan: Plan) -> list[tuple[Op, Choice]]:
        """The ops that have no proved form in the layouts that the plan gives them."""
        out = []
        for op, choice in plan.ways.items():
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
            if self.mode == "graph" and not isinstance(found, Refusal) and found.identity is None:
                found = self.raisable(func, found)
            self.known[key] = found
        return self.known[key]

    def raisable(self, func: Any, new: Rewritten) -> Rewritten | Refusal:
        """In graph mode an operator stays an operator."""
        before = self.analyse(func).info
        if not isinstance(before, OpInfo) or before.relaid:
            return new
        after = self.analyse(new.func).info
        if isinstance(after, OpInfo) and not after.relaid:
            if before.name == after.name or self.all_kinds.known(func).moves:
                return new
        return Refusal(f"{before.name} is no Relax operator in these layouts")

    def rewritten(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | Still:
        found = self.tried(func, layouts, shares)
        assert not isinstance(found, Refusal)
        return found
