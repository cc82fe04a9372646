"""The harness that generates programs: it detects wrong answers, and small runs have none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm.tirx.buffer import is_buffer_var

from benchmarks.attacks.adversary import judge, oracle
from benchmarks.attacks.adversary.__main__ import Several
from benchmarks.attacks.adversary.adversary_page import page, percentile
from benchmarks.attacks.adversary.generate import FAMILIES, program
from benchmarks.attacks.adversary.new_forms import NewForm, differs
from benchmarks.attacks.adversary.program import Program, symbolic
from opinfo.analysis import OpInfo, op_info, recogniser, recogniser_scope

SEEDS = range(40_000, 40_012)


def test_a_small_run_is_clean() -> None:
    rows = judge.judge(SEEDS)
    counts = Counter(r.verdict for r in rows)
    assert len(rows) >= 2 * len(SEEDS) and counts["right"] > 8
    assert set(counts) <= {"right", "refused", "unrun"}, rows
    text = page([r.to_json() for r in rows], Several(), len(SEEDS), SEEDS[0])
    assert f"{len(SEEDS)} programs, {len(rows)} queries: {counts['right']} right" in text


def test_every_family_is_generated_and_parses() -> None:
    found: dict[str, Program] = {}
    for seed in range(150):
        p = program(seed)
        found.setdefault(p.family, p)
    assert len(found) >= len(set(FAMILIES)) - 1
    for p in found.values():
        func = tvm.script.from_source(p.source)
        assert sum(map(is_buffer_var, func.params)) == p.inputs + 1
        other = tvm.script.from_source(judge.renamed(p.source, 3))
        assert tvm_equal(func, other) and func.script() != other.script()


def tvm_equal(a: Any, b: Any) -> bool:
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=True))


BODY = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = {value}
"""


def _wrong(value: str, claimed: str) -> str:
    """The oracle's verdict on a program paired with the answer for another."""
    p = Program("by hand", BODY.format(value=value), 1)
    func, other = (tvm.script.from_source(BODY.format(value=v)) for v in (value, claimed))
    info = op_info(other)
    assert isinstance(info, OpInfo)
    found = oracle.claim(info)
    run = oracle.compiled({"p": func})["p"]
    return oracle.wrong(
        p, func, run, oracle.operators({"c": oracle.module(func, found)})["c"], found
    )


@pytest.mark.parametrize(
    ("value", "claimed"),
    [
        ("T.exp(x[i, j])", "T.tanh(x[i, j])"),
        ("x[j, i]", "T.exp(x[i, j])"),
        ("T.Select(x[i, j] > T.float32(0), x[i, j], T.float32(0))", "T.fabs(x[i, j])"),
        ("x[i, j] * x[i, j] / x[i, j]", "x[i, j] * T.float32(-1)"),
    ],
)
def test_the_oracle_sees_another_operator(value: str, claimed: str) -> None:
    assert _wrong(claimed, claimed) == ""
    assert _wrong(value, claimed)


def test_an_exception_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(func: Any) -> Any:
        raise AssertionError("not thought of")

    monkeypatch.setitem(judge.QUESTIONS, "op_info", fails)
    rows = [r for r in judge.judge(SEEDS[:2]) if r.question == "op_info"]
    assert [(r.verdict, r.said) for r in rows] == [("raised", "AssertionError")] * 2
    assert "not thought of (test_adversary.py:" in rows[0].note


def test_a_recogniser_that_fails_is_an_exception() -> None:
    """All are the package's own; the others' answer does not hide it."""

    def fails(f: Any) -> Any:
        raise AssertionError("not thought of")

    func = tvm.script.from_source(BODY.format(value="T.exp(x[i, j])"))
    with recogniser_scope():
        recogniser("fails", precedence=1, ops=())(fails)
        row, answer = judge._answer(judge.Row(0, "by hand", "op_info"), op_info, func)
    assert row.verdict == "raised" and answer is None and "not thought of" in row.note


def test_times_and_differences_are_counted() -> None:
    rows = [{"cpu": k / 100} for k in range(100)]
    assert percentile(rows) == 0.99 and percentile(rows, 50) == 0.5 and percentile([]) == 0.0
    several = Several()
    several.said = {(1, "op_info"): {"a"}, (2, "op_info"): {"a", "b"}}
    assert list(several.differ) == [(2, "op_info")]


def test_what_data_decides_stays_inside() -> None:
    p = replace(Program("by hand", BODY, 1), places={0: (0, 3)})
    func = tvm.script.from_source(BODY.format(value="x[i, j]").replace("float32", "int32"))
    info = op_info(func)
    assert isinstance(info, OpInfo)
    for values, _ in oracle.draws(p, func, oracle.claim(info)):
        assert values[0].min() >= 0 and values[0].max() <= 3


SUMS = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((1,), "float32")):
    out[0] = T.float32(1)
    for i, j in T.grid{loops}:
        out[0] = out[0] * T.float32(-0.5) + x[{index}]
"""


def test_another_order_of_iterations_is_seen() -> None:
    p = Program("by hand", "", 1)
    texts = (SUMS.format(loops="(4, 6)", index="i, j"), SUMS.format(loops="(6, 4)", index="j, i"))
    func, other = map(tvm.script.from_source, texts)
    runs = oracle.compiled({"p": func, "q": other})
    form = NewForm(other, (None, None))
    assert differs(p, func, form, runs["p"], runs["p"], 0) == ""
    assert differs(p, func, form, runs["p"], runs["q"], 0)


def test_sizes_are_chosen_and_their_sign_must_be_stated() -> None:
    p = symbolic("by hand", {"x": ("n", "m")}, ("n * m",), ["for i in range(n * m):",
                 "    out[i] = x[i // m, i % m]"])  # fmt: skip
    func = tvm.script.from_source(p.source)
    assert p.sizes == ("n", "m")
    info = op_info(func)
    assert isinstance(info, OpInfo)
    claimed = oracle.claim(info)
    module = oracle.module(func, claimed)
    assert oracle.sizes_of(module) == ("n", "m")
    run, call = oracle.compiled({"p": func})["p"], oracle.operators({"c": module})["c"]
    assert oracle.wrong(p, func, run, call, claimed, ("n", "m")) == ""
    silent = oracle.Claim(info, (replace(info.certificate, assumptions=()),))
    assert "positive" in oracle.wrong(p, func, run, call, silent, ("n", "m"))
