"""Checks that every backend must pass."""

from __future__ import annotations

import unittest
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ..byoc import Backend, Code, Region, dispatch
from ..byoc.backend.catalog import find, unusable
from ..byoc.backend.guarded_calls import guarded
from ..byoc.codegen.call_converters import code
from ..byoc.compile import CompiledModule, compile_module
from ..byoc.prepare.prepare import prepare
from .case import Case, check_all
from .example import Example, Variant, difference, module, variants
from .new_process import run_in_new_process
from .samples import samples
from .unoptimised import unoptimised


def backend_cases(
    backend: Backend,
    examples: Sequence[Example] | None = None,
    *,
    registered: bool = True,
    plan: bool = True,
    imports: Sequence[str] = (),
) -> list[Case]:
    """Return the checks of a backend.

    The backend is discovered by name, and says in one line why it is not available.

    Its patterns have distinct names. Each pattern, and each operator that can begin one, occurs in
    an example.

    For each example and dtype, it takes the expected regions and computes the same results as TVM,
    or leaves the operators for the expected reason.

    It generates the same code each time, and returns a cost for each region.

    The exported library computes the same results in a new process.

    Args:
        backend: The backend to check.
        examples: Programs to compile; by default they are derived from the patterns if possible.
        registered: Whether the backend must be discovered by name, as that of an installed package.
        plan: Plan layouts that the backend prefers.
        imports: Modules to import before loading the backend's libraries.

    Returns:
        The checks in this order. Compilation happens when the first check needs it.
    """
    trial = _Trial(backend, examples, plan, imports)
    cases = [
        *([Case("is discovered by its name", trial.registered)] if registered else []),
        Case("says whether it is available", trial.available),
        Case("names its patterns", trial.names),
        Case("has an example for each pattern", trial.covered),
    ]
    cases += [Case(f"takes {v}" if v.example.takes else f"leaves {v}", partial(trial.example, v))
              for v in trial.variants]  # fmt: skip
    return [
        *cases,
        Case("gives the cost of each region", trial.costs),
        Case("generates the same code again", trial.deterministic),
        Case("runs in a new process", trial.new_process),
    ]


def check_backend(
    backend: Backend, examples: Sequence[Example] | None = None, **options: Any
) -> None:
    """Run all checks of a backend.

    Args:
        backend: The backend to check.
        examples: Programs to compile; see `backend_cases`.
        options: Further arguments of `backend_cases`.

    Raises:
        AssertionError: Checks fail; the message has a line for each.
    """
    check_all(f"backend {backend.name}", backend_cases(backend, examples, **options))


class _Trial:
    """Compiles all examples together, when the first check needs them."""

    def __init__(self, backend: Backend, examples: Sequence[Example] | None, plan: bool,
                 imports: Sequence[str]) -> None:  # fmt: skip
        self.regions: list[Region] = []
        self.backend, self.plan, self.imports = backend, plan, imports
        self.derived = examples is None
        self.variants = variants(samples(backend) if examples is None else examples)
        self.taken = [v for v in self.variants if v.example.takes]

    def registered(self) -> None:
        __tracebackhide__ = True
        entry = find(self.backend.name)
        assert entry is self.backend, (
            f"{self.backend.name} is another Backend ({unusable(entry) or entry.name}); expected "
            "the entry point of the group opinfo.backends to name this one"
        )

    def available(self) -> None:
        __tracebackhide__ = True
        reason = None if unusable(self.backend) is None else self.backend.available()
        assert reason is None or (reason.strip() and "\n" not in reason), (
            f"available returned {reason!r}, expected None or the reason in one line"
        )

    def names(self) -> None:
        __tracebackhide__ = True
        names = self.backend.pattern_names
        assert len(set(names)) == len(names), (
            f"pattern names must be distinct, got {', '.join(names)}"
        )
        failures: list[Any] = []
        version = guarded(self.backend, failures).version()
        assert not failures, str(failures[0])
        assert "\n" not in version, f"version returned {version!r}, expected one line"

    def covered(self) -> None:
        __tracebackhide__ = True
        self._need()
        met: dict[str, set[str]] = defaultdict(set)
        dispatched = self.compiled.dispatched
        for region in dispatched.taken:
            met[region.pattern].update(region.ops)
        missing = {p.name: sorted(p.steps[0].names - met[p.name]) for p in self.backend.patterns
                   if p.name not in met or (p.steps[0].names - met[p.name])}  # fmt: skip
        missing |= {
            coarse.name: sorted({n for s in coarse.steps for n in s.names} - met[coarse.name])
            for coarse in self.backend.coarse
            if {n for s in coarse.steps for n in s.names} - met[coarse.name]
        }
        listing = "; ".join(f"{p}: {', '.join(ops) or 'any'}" for p, ops in missing.items())
        assert not missing, f"no example is taken by the pattern {listing}"

    def example(self, variant: Variant) -> None:
        __tracebackhide__ = True
        self._need()
        if variant.example.refused:
            self._check_reason(variant)
        if not variant.example.takes:
            return
        dispatched = self.compiled.dispatched
        names = [" ".join(o.rpartition(".")[2] for o in region.ops)
                 for region, planned in zip(dispatched.taken, dispatched.plan.regions, strict=True)
                 if planned.function == variant.function]  # fmt: skip
        failures = [f for f in dispatched.failed if f.function in ("", variant.function)]
        failed = "".join(f"; {f}" for f in {(f.stage, f.reason): f for f in failures}.values())
        assert sorted(names) == variant.example.regions, (
            f"the regions are {sorted(names)}, expected {variant.example.regions}{failed}"
        )
        actual = self.isolated_results[variant.function]
        assert not isinstance(actual, str), actual
        expected = self.expected[variant.function](*self._inputs(variant))
        wrong = difference(actual, _fields(expected), variant.example.tolerance)
        assert not wrong, wrong

    def _check_reason(self, variant: Variant) -> None:
        __tracebackhide__ = True
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            dispatched = dispatch(prepare(module([variant]), [self.backend]), [self.backend],
                            layouts="best" if self.plan else "given")  # fmt: skip
        assert variant.example.takes or not dispatched.taken, (
            f"it takes {dispatched.taken[0].ops}, expected no region"
        )
        reasons = [operator.why for operator in dispatched.left]
        assert any(variant.example.refused in why for why in reasons), (
            f"the reasons are {reasons}, expected one with {variant.example.refused!r}"
        )
        assert all("\n" not in why for why in reasons), (
            f"expected reasons of one line, got {reasons}"
        )

    def costs(self) -> None:
        __tracebackhide__ = True
        if self.backend.cost is None:
            return
        self._need()
        failures: list[Any] = []
        cost = guarded(self.backend, failures).cost
        assert cost is not None and self.compiled
        for region in self.regions:
            cost(region)
        assert not failures, str(failures[0])

    def deterministic(self) -> None:
        __tracebackhide__ = True
        self._need()
        assert self.compiled and self.regions, "no region was converted"
        first, second = (code(self.backend, self.regions) for _ in range(2))
        assert _comparable(first) == _comparable(second), (
            "convert returned different code for the same regions"
        )

    def new_process(self) -> None:
        __tracebackhide__ = True
        self._need()
        for variant in self.taken:
            failed = self.isolated_results[variant.function]
            assert not isinstance(failed, str), f"{variant}: {failed}"
        for variant in self.taken:
            here = _fields(self.machine[variant.function](*self._inputs(variant)))
            wrong = difference(
                self.isolated_results[variant.function], here, variant.example.tolerance
            )
            assert not wrong, f"{variant}: {wrong}"

    def _need(self) -> None:
        """Raise ``SkipTest`` if the backend is not available."""
        __tracebackhide__ = True
        if (reason := unusable(self.backend)) is not None:
            raise unittest.SkipTest(f"{self.backend.name} is not available: {reason}")
        assert self.taken, f"no example is taken by {self.backend.name}; pass examples"

    @cached_property
    def compiled(self) -> CompiledModule:
        """All examples to be taken, compiled by a backend that records its regions."""

        def convert(regions: Sequence[Region]) -> Code:
            self.regions = list(regions)
            return self.backend.convert(regions)

        spied = replace(self.backend, convert=convert)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the examples report failures themselves
            return compile_module(module(self.taken), [spied], plan=self.plan)

    @cached_property
    def isolated_results(self) -> dict[str, list[Any] | str]:
        """Results computed in a separate process, because code under test may end its process."""
        calls = {v.function: self._inputs(v) for v in self.taken}
        return run_in_new_process(self.compiled.export, calls, self.imports)

    @cached_property
    def machine(self) -> Any:
        return self.compiled.machine()

    @cached_property
    def expected(self) -> Any:
        """The examples compiled by TVM alone."""
        executable = unoptimised(module(self.taken))
        return relax.VirtualMachine(executable, tvm.cpu())

    def _inputs(self, variant: Variant) -> list[Any]:
        return [tvm.runtime.tensor(a) for a in variant.example.values(variant.dtype)]


def _fields(result: Any) -> Any:
    return [result] if isinstance(result, tvm.runtime.Tensor) else result


def _comparable(generated: Code) -> tuple[Any, ...]:
    constants = [
        (name, np.asarray(array).tobytes(), str(array.dtype), array.shape)
        for name, array in generated.constants
    ]
    return generated.source, generated.symbols, generated.options, generated.rounds, constants
