"""Import, compile and call the programs of a case, and compare their results with torch's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..operator_suites.array_differences import difference, limit
from ..operator_suites.exported_programs import Program, grown
from ..operator_suites.outcomes import (
    BAD,
    CRASHED,
    LATE,
    OTHER,
    PARTLY,
    REFUSED,
    RIGHT,
    UNCALLED,
    UNCOMPILED,
    WRONG,
    Outcome,
)  # fmt: skip
from .open_positions import Positions, open_positions
from .samples import Case

#: Limit on the time of a case, in seconds.
SECONDS = 180
#: Relative tolerance of float32 and float64.
TOLERANCE = 1e-4
MEANINGS: Mapping[str, str] = {
    RIGHT: "the results of all samples as torch computes them",
    PARTLY: "some samples right, the others refused with node and reason",
    REFUSED: "`opinfo.load` names the node and the reason",
    UNCALLED: "the call raises",
    UNCOMPILED: "`opinfo.compile` raises",
    WRONG: "a result differs",
    CRASHED: "the process died",
    LATE: "no outcome in time",
    OTHER: "torch does not export it, or its results are random or not tensors",
}


def outcome(case: Case) -> Outcome:
    """Return what becomes of the samples of a case."""
    try:
        with limit(SECONDS):
            whole, programs = case.programs()
            rows = [attempt(whole, case.symbolic)]
            if len(programs) > 1 and rows[0].verdict != RIGHT:
                rows = [attempt(program, case.symbolic) for program in programs]
    except TimeoutError:
        return Outcome(case.name, LATE)
    except Exception as error:  # torch cannot make its own samples
        return Outcome(case.name, OTHER, _line(error))
    return _whole(case.name, rows)


def _whole(name: str, rows: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a case from those of its programs: a bad one, or what most are."""
    rows = [row for row in rows if row.verdict != OTHER] or list(rows[:1])
    if not rows:
        return Outcome(name, OTHER)
    bad = [row for row in rows if row.verdict in BAD]
    if bad:
        return Outcome(name, bad[0].verdict, bad[0].reason)
    counts = Counter(row.verdict for row in rows)
    if len(counts) == 1:
        return Outcome(name, rows[0].verdict, rows[0].reason)
    other = next(row for row in rows if row.verdict != RIGHT)
    return Outcome(name, PARTLY if counts[RIGHT] else other.verdict, other.reason)


def attempt(program: Program, symbolic: bool = False) -> Outcome:
    """Return what becomes of a program: its results at its sizes, and at larger ones."""
    import opinfo
    from opinfo.frontend.formats.from_torch import from_program
    from opinfo.frontend.formats.importer import at_node

    try:
        expected, again = program.results(), program.results()
        exported = program.exported(symbolic)
        larger = grown(exported, program.inputs) if symbolic else None
    except Exception as error:
        return Outcome("", OTHER, _line(error))
    if not expected or any(map(_differs, again, expected)):
        return Outcome("", OTHER, "random, or no tensors")
    try:
        mod = from_program(exported)
    except TimeoutError:
        raise
    except Exception as error:
        place = at_node(error).removeprefix(" at ")
        named = bool(place) or isinstance(error, opinfo.FrontendError)
        return Outcome("", REFUSED if named else UNCOMPILED, f"{place}: {_line(error)}")
    try:
        compiled = opinfo.compile(mod, [])
    except TimeoutError:
        raise
    except Exception as error:
        return Outcome("", UNCOMPILED, _line(error))
    row = _called(compiled, exported, program.inputs, expected)
    if row.verdict != RIGHT or larger is None:
        return row
    try:
        expected = program.results(larger)
    except Exception:
        return row
    return _called(compiled, exported, larger, expected)


def _called(
    compiled: Any, exported: Any, inputs: Sequence[torch.Tensor], expected: Sequence[Any]
) -> Outcome:
    try:
        out = compiled.run(*[x.contiguous().clone() for x in inputs])
    except TimeoutError:
        raise
    except Exception as error:
        return Outcome("", UNCALLED, _line(error))
    results = _flat(out)
    if len(results) != len(expected):
        return Outcome("", WRONG, f"{len(results)} results, expected {len(expected)}")
    open_ = open_positions(exported, inputs)
    bad = [text for k, (got, want) in enumerate(zip(results, expected, strict=True))
           if (text := _differs(got, want, open_.get(k)))]  # fmt: skip
    return Outcome("", WRONG, "; ".join(bad)) if bad else Outcome("", RIGHT)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in _flat(part)]
    return [value]


def _differs(got: Any, want: torch.Tensor, positions: Positions | None = None) -> str:
    got = _tensor(got)
    if positions is not None:
        return positions.difference(got, want)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    tolerance = {torch.float16: 2**-9, torch.bfloat16: 2**-6}.get(want.dtype, TOLERANCE)
    wide = (lambda x: x.double()) if want.dtype in (torch.float16, torch.bfloat16) else torch.clone
    finite = want[torch.isfinite(want)].double().abs() if want.is_floating_point() else None
    largest = float(finite.max()) if finite is not None and finite.numel() else 0.0
    return difference(_array(wide(got)), _array(wide(want)), tolerance, tolerance * largest / 10)


def _tensor(x: Any) -> torch.Tensor:
    if getattr(x, "dtype", None) == "bfloat16":  # of ml_dtypes, which DLPack does not know
        return torch.from_numpy(np.asarray(x).view("int16")).view(torch.bfloat16)
    return x if isinstance(x, torch.Tensor) else torch.from_numpy(np.asarray(x))


def _array(x: torch.Tensor) -> Any:
    return np.asarray(x.resolve_conj().resolve_neg())


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
