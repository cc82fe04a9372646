"""`SpecializeShapes`: compile each PrimFunc with symbolic shapes by its strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import relax, tirx

from ...analysis import Refusal, op_infos
from ...analysis.support.exports import renamed_parameter
from ...analysis.support.ir.deep_copy import copied
from ...analysis.support.ir.rewrite_functions import rewrite_functions
from ...analysis.support.progress import stage
from ...analysis.support.wording import did_you_mean
from ...byoc.building.read_target import read_target
from ...byoc.codegen.partition import attached
from ...byoc.dims.span import Span
from ...byoc.dims.symbolic_dims import Unbound, rooted, static, symbols
from ...byoc.prepare.loops.guard_stores import guarded
from ...byoc.prepare.loops.start_reductions import started
from ...byoc.schedule import schedule
from ...byoc.schedule.nest.inlining.inlined_lets import inlined_lets
from ..aot.kernel_variants import Ranged
from ..aot.merge import merge
from ..aot.multi_version import multi_version
from ..config.named_dims import resolved
from ..config.sites import CallSite, call_sites, results
from ..config.strategy import (
    Aot,
    Config,
    Generic,
    Jit,
    Library,
    Record,
    Strategy,
    checked_config,
    chosen,
)
from ..tune.schedule_database import OpenDatabase
from .site_table import public_functions, site_codes, symbol
from .specialized_function import Specialized, SpecializedFunction


@renamed_parameter("given", "strategy")
def specialize_shapes(
    mod: Any,
    strategy: Config | Strategy | str = "jit",
    target: Any = "llvm",
    unscheduled: Mapping[str, str] = MappingProxyType({}),
) -> Specialized:
    """Compile each symbolic PrimFunc of a module by its strategy.

    Before: lv = R.call_tir(cls.matmul, (x, w), …)
    After:  lv = R.call_dps_packed("opinfo_site_0", (x, w), …)        # jit, record

    Args:
        mod: A module after ``FuseTIR``; it is not changed.
        strategy: A strategy for functions with symbolic shapes, its name, or a `Config`.
        target: TVM's target.
        unscheduled: Functions that stay unchanged, with the reason.

    Returns:
        The module, and how each function is compiled.

    Raises:
        ValueError: The configuration does not fit the module.
    """
    settings = resolved(checked_config(strategy), mod)
    if reserved := sorted(
        n for n in public_functions(mod) if n.startswith(("opinfo_site_", "opinfo_jit_"))
    ):
        raise ValueError(
            f"the function name {reserved[0]} is reserved by opinfo: rename the function"
        )
    named = {g.name_hint for g, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    if strange := sorted(settings.by_function.keys() - named):
        raise ValueError(f"by_function: unknown PrimFunc {', '.join(strange)}; known: "
                         f"{', '.join(sorted(named))}"
                         f"{did_you_mean(strange[0], named)}")  # fmt: skip
    target = read_target(target)
    sites = call_sites(mod)
    outcomes: dict[str, SpecializedFunction] = {}
    functions: dict[str, Any] = {}
    names = dict.fromkeys(s.function for s in sites)
    for k, name in enumerate(names):
        stage("compiling functions", k, len(names))
        func_sites = [s for s in sites if s.function == name]
        functions[name], outcomes[name] = _compiled(
            mod[name], name, func_sites, settings, target, unscheduled.get(name)
        )
    for gvar, func in mod.functions.items():
        if isinstance(func, tirx.PrimFunc) and gvar.name_hint not in functions and static(func):
            name = gvar.name_hint
            functions[name], outcomes[name] = _generic(func, name, target, unscheduled.get(name))
    called = [s for s in sites if isinstance(outcomes[s.function].strategy, Jit | Record)]
    module = mod.clone()
    for name, func in functions.items():
        module.update_func(module.get_global_var(name), func)
    if called:
        module = rewrite_functions(module, _CallReplacer(module, called))
    module = attached(module, site_codes(mod, called, outcomes, settings, target))
    return Specialized(module, tuple(outcomes.values()))


def by_function(mod: Any, settings: Config) -> Config:
    """Return the configuration with its strategies by operator as strategies by function.

    So they apply to functions whose operators cannot be recognised any more.
    """
    if not settings.by_op:
        return settings
    names = dict.fromkeys(s.function for s in call_sites(mod))
    strategies = {name: chosen(settings, name, _ops(mod[name])) for name in names}
    return replace(settings, by_function={**settings.by_function, **strategies}, by_op={})


def _compiled(func: Any, name: str, func_sites: list[CallSite], settings: Config, target: Any,
              unscheduled: str | None) -> tuple[Any, SpecializedFunction]:  # fmt: skip
    """Return the function for the module, and how it is compiled."""
    strategy = chosen(settings, name, _ops(func) if settings.by_op else ())
    refused = next((s.why_not for s in func_sites if s.why_not is not None), None)
    if isinstance(strategy, Generic) and not strategy.scheduled:
        return guarded(func), SpecializedFunction(name, strategy, "none", "as requested")
    kernel, outcome = _generic(func, name, target, unscheduled)
    outcome = replace(outcome, strategy=strategy)
    if refused is None and isinstance(strategy, Jit) and _asserts(func):
        refused = "it checks its arguments, and those with which kernels are compared would fail"
    if refused is not None:
        return kernel, replace(outcome, strategy=Generic(), why=refused)
    if isinstance(strategy, Library):
        return kernel, replace(outcome, strategy=Generic(), why="no backend takes it")
    if isinstance(strategy, Jit) and any(s.grows for s in func_sites):
        return kernel, replace(outcome, strategy=Generic(),
                               why="its sizes change whenever a cache grows")  # fmt: skip
    if isinstance(strategy, Aot) and unscheduled is not None:
        return kernel, replace(outcome, strategy=Generic())
    if isinstance(strategy, Aot):
        return _ahead(func, kernel, func_sites, settings, outcome, target)
    return kernel, outcome


def _generic(func: Any, name: str, target: Any,
             unscheduled: str | None = None) -> tuple[Any, SpecializedFunction]:  # fmt: skip
    """Schedule a function for all its shapes; without a schedule, leave it to TVM's default."""
    func = inlined_lets(func)  # also where it stays unscheduled beside its schedule
    unreadable = _unreadable(func) if unscheduled is None else Refusal(unscheduled)
    generic: Any = unreadable if unreadable is not None else schedule(func, target)
    if isinstance(generic, Refusal):
        rule, kernel, why = "none", copied(guarded(func)), generic.reason
    else:
        rule, kernel, why = generic.rule, generic.func, ""
    if not isinstance(generic, Refusal) and not static(func):
        kernel = _guarded(func, kernel)
    kernel = rooted(kernel).with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    return kernel, SpecializedFunction(name, Generic(), rule, why)


def _asserts(func: Any) -> bool:
    """Return whether a function fails for some arguments, as checks of indices do."""
    asserts: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.AssertStmt, asserts.append))
    return bool(asserts)


def _unreadable(func: Any) -> Refusal | None:
    """Say why the dimensions of a function cannot be read from its arguments."""
    try:
        symbols(func)
    except Unbound as error:
        return Refusal(str(error))
    return None


def _guarded(func: Any, kernel: Any) -> Any:
    """Use the schedule only for positive dimensions, which it assumes."""
    return merge(guarded(started(func)), [Ranged(kernel, {s.name: Span(1) for s in symbols(func)})])


def _ops(func: Any) -> tuple[Any, ...]:
    """Return the recognised operators of a function, whatever the layouts of its buffers."""
    chain = op_infos(func)
    return tuple(s.operator for s in getattr(chain, "steps", ()))


def _ahead(
    func: Any,
    generic: Any,
    func_sites: list[CallSite],
    settings: Config,
    outcome: SpecializedFunction,
    target: Any,
) -> tuple[Any, SpecializedFunction]:
    assert isinstance(outcome.strategy, Aot)
    database = None if settings.tuned is None else OpenDatabase(settings.tuned)
    result = multi_version(
        func, generic, func_sites, settings.dims, outcome.strategy, target, database
    )
    if isinstance(result, Refusal):
        return generic, replace(outcome, strategy=Generic(), why=result.reason)
    return rooted(result.func), replace(outcome, why=result.summary)


@relax.expr_functor.mutator
class _CallReplacer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls, in the order of `call_sites`, by packed calls of their sites."""

    def __init__(self, mod: Any, called: list[CallSite]) -> None:
        super().__init__(mod)
        self.symbols = {s.call: symbol(k) for k, s in enumerate(called)}

    def visit_call_(self, call: Any) -> Any:
        site_symbol = self.symbols.get(call)
        rewritten = super().visit_call_(call)
        if site_symbol is None:
            return rewritten
        return relax.call_dps_packed(site_symbol, rewritten.args[1], out_ty=results(rewritten))
