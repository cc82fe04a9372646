"""Plan a function so that each PrimFunc has a proved form in its layouts.

decide → a PrimFunc has no proved form → that alternative is forbidden → decide → …

If backends are chosen in the same problem, they match the unproved forms of all alternatives, and
only the forms of the plan are proved. If such a proof fails, or proves another form than the one
that was matched, all forms are proved, and the plan is decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from tvm import relax
from tvm_ffi import structural_equal

from ..analysis.results.op_info import OpInfo, Refusal
from ..analysis.support.progress import stage
from .alternatives.alternative import GIVEN, Alternative
from .alternatives.op_spec import OpSpec
from .alternatives.operator_forms import ProductForm
from .apply.conversion import layouts_of
from .graph.read_graph import graph
from .graph.relax_graph import Graph, Op
from .model.layout import Layout
from .rewrite.candidate_rewrite import LoopOrder
from .rewrite.rewrite import ParamAlias, Rewritten, Unproved
from .search.function_plan import (
    Cost,
    Extend,
    Plan,
    SearchSpace,
    cheapest,
    decide,
    layouts_in,
    narrowed,
    space,
)
from .search.op_specs import OpSpecs
from .search.pins import Pins
from .search.solve import NoSolution

Mode = Literal["graph", "region", "tir"]

#: Plans that are tried before all layouts are left unchanged.
ROUNDS = 20

Form = TypeVar("Form", Rewritten, Unproved)
Write = Callable[[Any, Sequence[Layout | None], LoopOrder], Form | Refusal]
"""Writes a PrimFunc over buffers in layouts."""

FormIn = Callable[[Any, Sequence[Layout | None], bool], Rewritten | Unproved | ParamAlias | Refusal]
"""Returns a PrimFunc's form in layouts; the last argument says whether its result shares memory."""


class _Forbidden:
    """Alternatives without a proof, by op spec: equal PrimFuncs share them."""

    def __init__(self, specs: Mapping[Op, OpSpec]) -> None:
        self.specs = specs
        self.alternatives: dict[int, frozenset[Alternative]] = {}
        self.reasons: dict[Op, str] = {}

    def add(self, op: Op, alternative: Alternative, reason: str) -> None:
        key = id(self.specs[op])
        self.alternatives[key] = self.alternatives.get(key, frozenset()) | {alternative}
        self.reasons[op] = reason

    def by_op(self, ops: Sequence[Op]) -> dict[Op, frozenset[Alternative]]:
        places = ((op, self.alternatives.get(id(self.specs[op]))) for op in ops)
        return {op: left_out for op, left_out in places if left_out is not None}


class Planner:
    """Plans the functions of a module one by one; a PrimFunc is proved once per layouts."""

    def __init__(
        self, mod: Any, specs: OpSpecs, mode: Mode, cost: Cost, pins: dict[str, str], seconds: float
    ) -> None:
        self.mod, self.specs, self.mode = mod, specs, mode
        self.cost, self.pins, self.seconds = cost, Pins(mod, pins), seconds
        self.spec_by_op: dict[Op, OpSpec] = {}
        self.forms: dict[Any, Rewritten | ParamAlias | Refusal] = {}
        self.likely: dict[Any, Unproved | ParamAlias | Refusal] = {}
        self.analyse, self.rewriter = specs.proofs.analyse, specs.proofs.rewriter
        self.direct = specs.proofs.direct
        self.unexpected = 0  # the proofs that took another form than the likely one

    def plan_module(self) -> dict[Any, tuple[Graph, Plan]]:
        """The plan of each Relax function. Raises ``ValueError`` for pins that do not fit."""
        functions = [g for g, f in self.mod.functions_items() if isinstance(f, relax.Function)]
        plans = {g: self.plan(g) for g in functions}
        self.pins.check()
        return plans

    def parts(
        self, plans: Mapping[Any, tuple[Graph, Plan]]
    ) -> list[tuple[Graph, Plan, Mapping[Op, OpSpec]]]:
        """The parts of a report: each function with its plan and op specs."""
        return [(graph, plan, self.spec_by_op) for graph, plan in plans.values()]

    def plan(
        self, gvar: Any, function: Graph | None = None, extend: Extend | None = None
    ) -> tuple[Graph, Plan]:
        """The cheapest plan of a function in which each PrimFunc has a proved form."""
        function = function or graph(self.mod, self.mod[gvar])
        specs = self.specs.of(function)
        self.spec_by_op.update(specs)
        pins = self.pins.of(gvar, function)
        choices = space(function, specs, pins, {}, self.mode != "tir")
        forbidden = _Forbidden(specs)
        if extend is not None:  # it reads all forms, of which only those of the plan are proved
            for op, alternative, reason in self.formless(function, choices, self.likely_form):
                forbidden.add(op, alternative, reason)
            choices = narrowed(choices, forbidden.by_op(function.ops))
        bound = 0.0
        for _ in range(ROUNDS):
            try:
                plan = cheapest(choices, self.cost, self.seconds, extend)
            except NoSolution:
                break
            bound, unexpected = plan.solution.bound, self.unexpected
            refused = self.refused(function, plan)
            if not refused and self.unexpected == unexpected:
                return function, replace(plan, refusals=forbidden.reasons)
            if extend is not None:  # it takes long: the next plan should be the last one
                refused += self.formless(function, choices, self.proved_form)
            for op, alternative, reason in refused:
                forbidden.add(op, alternative, reason)
            choices = narrowed(choices, forbidden.by_op(function.ops))
        unchanged = {op: OpSpec(None, "no plan was found") for op in function.ops}
        plan = decide(function, unchanged, self.cost, pins, {}, self.seconds, extend=extend)
        status = f"cheaper plans had no proof in {ROUNDS} rounds"
        solution = replace(plan.solution, status=status, bound=min(bound, plan.solution.bound))
        return function, replace(plan, solution=solution, refusals=forbidden.reasons)

    def formless(
        self, function: Graph, choices: SearchSpace, form_in: FormIn
    ) -> list[tuple[Op, Alternative, str]]:
        """The alternatives, in one layout for each operand, that have no form.

        Left out are those that another op with the same spec has, as it shares its memory.
        """
        reasons: dict[tuple[int, Alternative], tuple[Op, str]] = {}
        written: set[tuple[int, Alternative]] = set()
        for k, (op, alternatives) in enumerate(choices.alternatives.items()):
            stage("writing forms", k, len(choices.alternatives))
            spec = self.spec_by_op[op]
            if spec.replacement is not None:
                continue
            for alternative in alternatives:
                layouts = layouts_in(op, alternative, spec)
                if layouts is None or not any(layouts_of(layouts)) or alternative.why == GIVEN:
                    continue
                form = form_in(op.func, layouts_of(layouts), function.shares(op))
                if isinstance(form, Refusal):
                    reasons[id(spec), alternative] = op, form.reason
                else:
                    written.add((id(spec), alternative))
        return [(op, place[1], reason) for place, (op, reason) in reasons.items()
                if place not in written]  # fmt: skip

    def refused(self, function: Graph, plan: Plan) -> list[tuple[Op, Alternative, str]]:
        """The ops without a proved form in their planned layouts, with the reasons."""
        out = []
        for k, (op, alternative) in enumerate(plan.chosen.items()):
            stage("proving layouts", k, len(plan.chosen))
            layouts = layouts_of(plan.layouts(op))
            if self.spec_by_op[op].replacement is not None and alternative.why != GIVEN:
                continue
            loops = self.spec_by_op[op].named and alternative.why != GIVEN
            if not loops and not any(layouts):
                continue
            form = self.proved_form(op.func, layouts, function.shares(op))
            if isinstance(form, Refusal):
                out.append((op, alternative, form.reason))
        return out

    def likely_form(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | Unproved | ParamAlias | Refusal:
        """The proved form, or before it is proved the form that the proof begins with.

        Most alternatives are never part of a plan, so nothing is proved here.
        """
        key = (func.__chandle__(), tuple(layouts), shares)
        if key in self.forms:
            return self.forms[key]
        if key not in self.likely:
            self.likely[key] = self.form(func, layouts, shares, self.rewriter.unproved)
        return self.likely[key]

    def proved_form(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | ParamAlias | Refusal:
        """The proved form, or `ParamAlias` if the result may be the operand's memory."""
        key = (func.__chandle__(), tuple(layouts), shares)
        if key not in self.forms:
            form = self.forms[key] = self.form(func, layouts, shares, self.rewriter)
            likely = self.likely.pop(key, None)
            if isinstance(likely, Unproved) and isinstance(form, Rewritten):
                self.unexpected += not structural_equal(likely.func, form.func)
        return self.forms[key]

    def form(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool, write: Write[Form]
    ) -> Form | ParamAlias | Refusal:
        """The form that ``write`` finds, unless the result may be the operand's memory."""
        named = self.specs.spec_of(func).named
        same = self.rewriter.aliased_param(func, layouts) if shares and not named else None
        if same is not None:
            return ParamAlias(same)
        form = write(func, layouts, "tiled" if named else "layout")
        if self.mode != "tir" and not isinstance(form, Refusal) and form.identity is None:
            return self.operator(func, form)
        return form

    def operator(self, func: Any, new: Form) -> Form | Refusal:
        """The form if it is the same operator, and its attributes name the layouts.

        In region mode, they must name the order of its axes: no layout splits an axis.
        """
        before = self.analyse(func).info
        if not isinstance(before, OpInfo) or before.relaid:
            return new
        if any(before.layouts):
            after = self.analyse(new.func).info
        else:  # a form computes the same numbers, so an operator that is exact stays so
            after = self.direct(new.func, before.certificate.kind == "real")
        if isinstance(after, OpInfo) and not (self.mode == "region" and after.packed):
            spec = self.specs.spec_of(func)
            product = isinstance(spec.form, ProductForm) and after.name == "relax.matmul"
            if before.name == after.name or spec.moves or product:
                return new
        return Refusal(f"{before.name} is not a Relax operator in these layouts")

    def rewritten(
        self, func: Any, layouts: Sequence[Layout | None], shares: bool
    ) -> Rewritten | ParamAlias:
        form = self.proved_form(func, layouts, shares)
        assert not isinstance(form, Refusal)
        return form
