"""Checks that every recogniser must pass."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from functools import partial
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ..analysis import OpInfo, RecogniserWarning, Refusal, op_info
from ..analysis.recognise import Matches, Refuses
from ..analysis.registry.built_in import BUILT_IN, identity
from ..analysis.registry.registry import Recogniser, left_out
from ..analysis.registry.registry import registered as registered_recognisers
from ..analysis.support import plugins
from .calls import check_answer, lower
from .case import Case, check_all
from .mutants import mutants, parsed
from .rebuild import check_rebuilt
from .reschedule import reschedule
from .strip import strip
from .unoptimised import unoptimised

#: Number of schedules and of mutants that are tested for each match.
SCHEDULES, MUTANTS = 2, 4


def recogniser_cases(module: ModuleType, *, registered: bool = True) -> list[Case]:
    """Return the checks of the recognisers of a module with ``MATCHES`` and ``REFUSES``.

    They are registered, and each of their operators occurs in ``MATCHES``.

    A recogniser that raises, or returns anything but valid proposals, fails all checks.

    Args:
        module: The module, which registers recognisers. ``MATCHES`` lists `Matches`, ``REFUSES``
            lists `Refuses`.
        registered: Whether an entry point of an installed package must lead to the module; opinfo's
            own modules need no entry point.

    Returns:
        The checks in this order.
    """
    name = module.__name__.rpartition(".")[2]
    matches: Sequence[Matches] = getattr(module, "MATCHES", ())
    refuses: Sequence[Refuses] = getattr(module, "REFUSES", ())
    plugin = registered and not module.__name__.startswith(BUILT_IN)
    return [
        *([Case(f"{name}: is discovered", partial(_discovered, module))] if plugin else []),
        Case(f"{name}: is registered", partial(_registered, module)),
        Case(f"{name}: has a match for each operator", partial(_covered, module, matches)),
        *(Case(f"{name}: matches {_label(k, m)}", partial(check_match, m))
          for k, m in enumerate(matches)),
        *(Case(f"{name}: is not misled near {_label(k, m)}", partial(_check_mutants, m))
          for k, m in enumerate(matches) if not _is_symbolic(m)),
        *(Case(f"{name}: refuses {r.why}", partial(check_refusal, module.__name__, r))
          for r in refuses),
    ]  # fmt: skip


def check_recogniser(module: ModuleType, *, registered: bool = True) -> None:
    """Run all checks of the recognisers of a module.

    Args:
        module: See `recogniser_cases`.
        registered: See `recogniser_cases`.

    Raises:
        AssertionError: Checks fail; the message has a line for each.
    """
    cases = recogniser_cases(module, registered=registered)
    check_all(f"recognisers of {module.__name__}", cases)


def check_match(case: Matches, schedules: int = SCHEDULES) -> None:
    """Check that a match is recognised under any names and schedule."""
    original = lower(case)
    before = tvm.ir.save_json(original)
    func = strip(original)
    info = _answer(func)
    assert isinstance(info, OpInfo), f"refused: {info}"
    check_answer(case, info)
    check_rebuilt(func, info)
    named = _answer(original)
    assert isinstance(named, OpInfo) and named.name == info.name, (
        f"{info.name} without names, but {named!r} with TVM's names"
    )
    assert tvm.ir.save_json(original) == before, "the function was changed"
    for k in range(schedules):
        rescheduled = reschedule(func, zlib.crc32(repr(case).encode()) + k)
        answer = _answer(rescheduled)
        if isinstance(answer, Refusal) or answer.relaid:
            continue  # correct, though incomplete
        if answer.certificate.kind == info.certificate.kind:
            assert (answer.name, answer.attrs.keys()) == (info.name, info.attrs.keys()), (
                f"another schedule gives {answer!r}"
            )
        check_answer(case, answer)


def check_refusal(module: str, case: Refuses) -> None:
    """Check that a program is not recognised as an operator of a module."""
    func = tvm.script.from_source(case.script)
    info = _answer(func)
    if isinstance(info, OpInfo) and not info.relaid:
        ops = {op for r in _recognisers(module) for op in r.ops}
        assert info.name not in ops, f"recognised as {info!r}, but: {case.why}"


def _discovered(module: ModuleType) -> None:
    owners = [p for p in plugins.installed(plugins.RECOGNISERS) if p.owns(module.__name__)]
    assert owners, (
        f"no entry point of the group {plugins.RECOGNISERS} leads to {module.__name__}; declare "
        "one in pyproject.toml and install the package, or pass registered=False"
    )
    failed = left_out()
    assert not all(p in failed for p in owners), failed[owners[0]]


def _registered(module: ModuleType) -> None:
    assert _recognisers(module.__name__), (
        f"no function of {module.__name__} is registered; expected one with @recogniser"
    )


def _covered(module: ModuleType, matches: Sequence[Matches]) -> None:
    shown = {op for case in matches for op in (case.op, case.name)}
    ops = {op for r in _recognisers(module.__name__) for op in r.ops}
    assert ops <= shown, f"MATCHES has no case of {', '.join(sorted(ops - shown))}"


def _recognisers(module: str) -> list[Recogniser]:
    return [r for r in registered_recognisers() if identity(r.run)[0] == module]


def _answer(func: tirx.PrimFunc) -> OpInfo | Refusal:
    """Return the answer; raises ``AssertionError`` if a recogniser fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecogniserWarning)
        info = op_info(func)
    failed = [str(w.message) for w in caught if issubclass(w.category, RecogniserWarning)]
    assert not failed, failed[0]
    return info


def _check_mutants(case: Matches) -> None:
    """Check that a mutant with the same answer computes the same."""
    original = parsed(lower(case).script())
    truth = _answer(original)
    assert isinstance(truth, OpInfo), f"refused: {truth}"
    for change, mutant in islice(mutants(original), MUTANTS):
        info = _answer(mutant)
        if isinstance(info, OpInfo) and _claim(info) == _claim(truth):
            assert _compute_same(original, mutant), f"also recognised with {change}"


def _claim(info: OpInfo) -> tuple[Any, ...]:
    return info.name, str(dict(info.attrs)), info.operands, info.relaid


def _compute_same(a: tirx.PrimFunc, b: tirx.PrimFunc) -> bool:
    """Return whether two functions are identical or equal on random inputs."""
    if tvm_ffi.structural_equal(a, b, map_free_vars=True):
        return True
    buffers = [p.ty for p in a.params if is_buffer_var(p)]
    rng = np.random.default_rng(0)
    inputs = [_values(rng, [int(e) for e in t.shape], str(t.dtype)) for t in buffers]
    results = []
    for func in (a, b):
        tensors = [tvm.runtime.tensor(x) for x in inputs]
        built = unoptimised(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
        built["main"](*tensors)
        results.append([t.numpy().astype("float64") for t in tensors])
    return all(np.allclose(x, y, 1e-3, 1e-5, equal_nan=True)
               for x, y in zip(*results, strict=True))  # fmt: skip


def _values(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> Any:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iub":
        return rng.integers(0, 2, shape).astype(kind)
    return rng.uniform(0.5, 2.0, shape).astype(kind)


def _is_symbolic(case: Matches) -> bool:
    letters = (c for text in case.operands for c in text.partition("[")[2])
    return any(c.isalpha() for c in letters)


def _label(k: int, case: Matches) -> str:
    return f"{case.op.removeprefix('relax.')} {k}"
