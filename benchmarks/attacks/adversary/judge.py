"""Judge programs: refused, answered rightly, answered wrongly, or an exception."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import tvm

from opinfo.analysis import (
    Chain,
    LayoutNormalised,
    OpInfo,
    RecogniserWarning,
    Refusal,
    layout_normalised,
    op_info,
    op_infos,
)
from opinfo.analysis.answer.internal_error import FAULT

from . import oracle
from .generate import program
from .new_forms import REWRITES, NewForm, differs
from .oracle import Claim, NotComposed
from .program import Program


@dataclass
class Row:
    """The result of one question about one program; ``cpu`` is in seconds."""

    seed: int
    family: str
    question: str
    verdict: str = ""
    said: str = ""
    note: str = ""
    cpu: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


QUESTIONS: dict[str, Callable[[Any], Any]] = {"op_info": op_info, "op_infos": op_infos}


def ask(seed: int, names: int = 0) -> tuple[Program, Any, list[tuple[Row, Any]]]:
    """Return the program of a seed, its PrimFunc, or None if it does not parse, and the answers.

    A number ``names`` other than 0 renames its parameters.
    """
    generated = program(seed)
    source = renamed(generated.source, names) if names else generated.source
    try:
        func = tvm.script.from_source(source)
    except Exception:  # the parser's own errors have no common type
        return generated, None, []
    answers = [_answer(Row(seed, generated.family, q), f, func) for q, f in QUESTIONS.items()]
    if answers[0][1] is None:  # it may be an operator over other layouts
        row = Row(seed, generated.family, "layout_normalised")
        answers.append(_answer(row, layout_normalised, func))
    for row, _ in answers:  # reasons name buffers
        row.said = re.sub(rf"\b[a-z]_(x|y|w|p|out)_{names}\b", r"\1", row.said)
    return generated, func, answers


def renamed(source: str, names: int) -> str:
    """Rename the parameters of a program, so that they sort in another order."""

    def new(match: re.Match[str]) -> str:
        return f"{chr(ord('a') + (ord(match[0][0]) * (names + 1) + names) % 26)}_{match[0]}_{names}"

    return re.sub(r"(?<![\w.'\"])(x|y|w|p|out)\b(?!')", new, source)


def _answer(row: Row, question: Callable[[Any], Any], func: Any) -> tuple[Row, Any]:
    start, answer = time.process_time(), None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RecogniserWarning)
            answer = question(func)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        row.verdict, row.said = "raised", type(error).__name__
        row.note = f"{error} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"[:300]
        return row, None
    finally:
        row.cpu = time.process_time() - start
    row.said = said(answer)
    failed = [str(w.message) for w in caught if issubclass(w.category, RecogniserWarning)]
    if failed:
        row.verdict, row.note = "raised", failed[0][:300]
        return row, None
    if not answer:
        row.verdict = "raised" if FAULT in row.said else "refused"
        answer = None
    return row, answer


def said(answer: Any) -> str:
    """Format an answer independently of the run and of names."""
    if isinstance(answer, OpInfo | LayoutNormalised):
        return f"{answer!r}, {'; '.join(answer.certificate.assumptions)}"
    if isinstance(answer, Chain):
        return " | ".join(said(s.info) for s in answer.steps)
    return str(answer.reason)


def judge(seeds: Iterable[int]) -> list[Row]:
    """Answer, compile all at once, run and compare."""
    batch = _Batch()
    for seed in seeds:
        batch.add(seed)
    batch.run()
    return batch.rows


@dataclass
class _Batch:
    """Programs and answers that are compiled together.

    Attributes:
        rows: The results; those of the other attributes get their verdict from `run`.
        same: Earlier results, and results that share their verdicts.
        answered: By the name of an operator's function: the program, its PrimFunc and the answer.
        rewritten: By the name of a rewritten PrimFunc: the program, its PrimFunc and the new one.
        funcs: The PrimFuncs to compile.
        mods: The modules of the answers.
    """

    rows: list[Row] = field(default_factory=list)
    same: list[tuple[Row, Row]] = field(default_factory=list)
    answered: dict[str, tuple[Program, Any, Row, Claim]] = field(default_factory=dict)
    rewritten: dict[str, tuple[Program, Any, Row, NewForm]] = field(default_factory=dict)
    funcs: dict[str, Any] = field(default_factory=dict)
    mods: dict[str, Any] = field(default_factory=dict)

    def add(self, seed: int) -> None:
        """Ask about the program of a seed, and judge what needs no compiler."""
        generated, func, answers = ask(seed)
        for row, form in rewrite(seed, generated, func):
            self.rows.append(row)
            if form is not None:
                key = f"{row.question}_{seed}"
                self.rewritten[key] = generated, func, row, form
                self.funcs |= {f"p{seed}": func, key: form.func}
        first: Row | None = None
        for row, answer in answers:
            self.rows.append(row)
            if answer is None:
                continue
            if first is not None and first.said == row.said:
                self.same.append((first, row))  # a chain of the operator that was answered
                continue
            first = row
            self._add_claim(generated, func, row, oracle.claim(answer))

    def _add_claim(self, generated: Program, func: Any, row: Row, claim: Claim) -> None:
        key = f"{row.question}_{row.seed}"
        if generated.races:
            admitted = claim.says("no two iterations")
            row.verdict = "right" if admitted else "wrong"
            row.note = "" if admitted else "iterations race, but the certificate does not say so"
            return
        if claim.readings:
            fault = oracle.reading_wrong(generated, func, claim)
            row.verdict, row.note = ("wrong", fault) if fault else ("right", "other layouts")
            return
        try:
            self.mods[key] = oracle.module(func, claim)
        except NotComposed as error:
            row.verdict, row.note = "unrun", str(error)
            return
        except Exception as error:
            row.verdict, row.note = "wrong", f"the answer cannot be called: {str(error)[-200:]}"
            return
        self.answered[key], self.funcs[f"p{row.seed}"] = (generated, func, row, claim), func

    def run(self) -> None:
        """Compile all, run and compare."""
        runs, calls = oracle.compiled(self.funcs), oracle.operators(self.mods)
        for key, (generated, func, row, claim) in self.answered.items():
            run, call = runs.get(f"p{row.seed}"), calls.get(key)
            if run is None or call is None:
                what = "program" if run is None else "operator"
                row.verdict, row.note = "unrun", f"the {what} does not compile"
                continue
            named = oracle.sizes_of(self.mods[key])
            fault = oracle.wrong(generated, func, run, call, claim, named)
            row.verdict, row.note = ("wrong", fault) if fault else ("right", "")
        for key, (generated, func, row, form) in self.rewritten.items():
            run, new = runs.get(f"p{row.seed}"), runs.get(key)
            if run is None or new is None:
                row.verdict = "unrun" if run is None else "wrong"
                what = "the program" if run is None else "only it"
                row.note = f"{what} does not compile"
                continue
            fault = differs(generated, func, form, run, new, row.seed)
            row.verdict, row.note = ("wrong", fault) if fault else ("right", "")
        for earlier, row in self.same:
            row.verdict, row.note = earlier.verdict, earlier.note


def rewrite(seed: int, generated: Program, func: Any) -> list[tuple[Row, NewForm | None]]:
    """Rewrite a program that means one thing, in each way."""
    if func is None or generated.races or generated.broken:
        return []
    before, out = tvm.ir.save_json(func), list[tuple[Row, NewForm | None]]()
    for name, change in REWRITES.items():
        row, form = Row(seed, generated.family, name), None
        start = time.process_time()
        try:
            result = change(generated, func, seed)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            row.verdict, row.said = "raised", type(error).__name__
            row.note = f"{error} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"[:300]
        else:
            form = result if isinstance(result, NewForm) else None
            row.verdict = "refused" if form is None else ""
            row.said = result.reason if isinstance(result, Refusal) else ""
        row.cpu = time.process_time() - start
        if tvm.ir.save_json(func) != before:
            row.verdict, row.note, form = "wrong", "the program was changed", None
        out.append((row, form))
    return out
