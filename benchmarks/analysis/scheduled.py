"""Recover operators from scheduled PrimFuncs.

    python -m benchmarks.scheduled [--run] [--op NAME,...] [--form TEXT] [--verbose]

Every operator of `tests/analysis/answers/scheduled_ops.py` is written in every form that
`tests/analysis/answers/schedules/scheduled_forms.py` can make of it, stripped of all names, and
analysed. `recovered` is an answer of the unscheduled PrimFunc, `wrong` another answer. `--run`
executes the forms with the independent interpreters and judges by the numbers: `wrong` is then an
answer that computes something else, `renamed` one of another name that computes what the form
computes, `unchecked` one that no interpreter can check. Forms that TVM's schedule changed are left
out.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from typing import Any

import numpy as np
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import OpInfo, op_info
from opinfo.testing.strip import strip
from tests.analysis.answers.scheduled_ops import OPS, legal
from tests.analysis.answers.schedules.scheduled_forms import forms
from tests.common.interpret import Undefined, interpret
from tests.common.machine import execute
from tests.common.machine.kernel_statements import has_threads
from tests.common.mutation import answer

SIZES = {"n": 5, "m": 7, "k": 6}


def same(a: Any, b: Any) -> bool:
    """Return whether an answer or an alternative has the other's name, operands and attributes."""
    if not (isinstance(a, OpInfo) and isinstance(b, OpInfo)):
        return False
    return _key(b) in {_key(i) for i in (a, *a.alternatives)}


def _key(info: OpInfo) -> str:
    return str((info.name, info.operands, sorted(info.to_json()["attrs"].items())))


def values(name: str) -> list[Any]:
    """Seeded operands of an operator."""
    rng = np.random.default_rng(3)
    shapes = [tuple(SIZES[d] if isinstance(d, str) else int(d) for d in s) for s in OPS[name][1]]
    out: list[Any] = [rng.standard_normal(s) for s in shapes]
    if name == "take":
        out[1] = rng.integers(0, 9, shapes[1])
    return out


#: What an oracle raises if it cannot execute a program.
NO_ANSWER = (Undefined, AssertionError, AttributeError, KeyError, NameError, TypeError, IndexError)


def computes(func: Any, operands: list[Any]) -> Any:
    """Execute a form; return None if no oracle can."""
    shapes = [p.ty.shape for p in func.params if is_buffer_var(p)]
    for shape, value in zip(shapes, operands, strict=False):
        sizes = [SIZES.get(e.name) if type(e).__name__ == "Var" else int(e) for e in shape]
        if sizes != list(value.shape):
            return None
    for oracle in (execute,) if has_threads(func) else (interpret, execute):
        try:
            return oracle(func, operands, SIZES)
        except NO_ANSWER:
            continue
    return None


def means(func: Any, info: OpInfo) -> str:
    """Return whether an answer with another name computes what the form computes."""
    buffers = [p for p in func.params if is_buffer_var(p)]
    rng = np.random.default_rng(5)
    try:
        operands = [rng.standard_normal(tuple(map(int, p.ty.shape))) for p in buffers[:-1]]
        got, claimed = computes(func, operands), answer(func, info, operands)
    except (*NO_ANSWER, ValueError):
        return "unchecked"
    if got is None or claimed is None:
        return "unchecked"
    return "renamed" if agree(got, claimed) else "wrong"


def judged(func: Any, info: Any, expected: Any, truth: Any, operands: list[Any]) -> str:
    """Return the verdict on an answer, by comparing numbers if ``truth`` is known."""
    alike = same(expected, info)
    if truth is None:
        return "recovered" if alike else "wrong" if info else "refused"
    if not info:
        got = computes(func, operands)
        return "changed" if got is not None and not agree(got, truth) else "refused"
    if not alike:
        return means(func, info)
    got = computes(func, operands)
    return "recovered" if got is None or agree(got, truth) else "wrong"


def agree(a: Any, b: Any) -> bool:
    return a is not None and all(np.allclose(x, y, 1e-6) for x, y in zip(a, b, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--op", default=",".join(OPS))
    parser.add_argument("--form", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    reasons, by_form = Counter[str](), defaultdict[str, Counter[str]](Counter)
    total, spent = Counter[str](), 0.0
    print(f"{'operator':20}{'forms':>7}{'recovered':>11}{'wrong':>7}{'refused':>9}{'ms/form':>9}")
    for name in options.op.split(","):
        plain = legal(name)
        expected = op_info(plain, alternatives=True)
        operands = values(name)
        truth = computes(plain, operands) if options.run else None
        count, start = Counter[str](), 0.0
        for form, func in forms(plain):
            if options.form not in form:
                continue
            bare = strip(func)
            begin = time.perf_counter()
            info = op_info(bare)
            start += time.perf_counter() - begin
            verdict = judged(func, info, expected, truth, operands)
            count[verdict] += 1
            by_form[form.split(",")[0]][verdict] += 1
            if verdict != "recovered":
                reason = getattr(info, "reason", repr(info))
                reasons[reason[:60]] += 1
                if options.verbose:
                    print(f"    {name}: {form}: {verdict}: {str(info)[:200]}")
        total += count
        spent += start
        forms_count = count.total()
        each = start * 1e3 / max(forms_count, 1)
        print(
            f"{name:20}{forms_count:7}{count['recovered']:11}{count['wrong']:7}"
            f"{count['refused']:9}{each:9.1f}", flush=True,
        )  # fmt: skip
    everything = total.total() - total["changed"]
    print(f"{'all':20}{everything:7}{total['recovered']:11}{total['wrong']:7}{total['refused']:9}")
    print(f"recovered: {total['recovered'] / max(everything, 1):.1%}", dict(total))
    for form, counts in sorted(by_form.items()):
        if counts["recovered"] < sum(counts.values()):
            print(f"  {form:40} {dict(counts)}")
    for reason, n in reasons.most_common(30):
        print(f"{n:5}  {reason}")


if __name__ == "__main__":
    main()
