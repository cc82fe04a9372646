"""The benchmark of language models: its oracle sees wrong answers, and its page counts them."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from benchmarks.analysis.llm import __main__ as command
from benchmarks.analysis.llm.__main__ import Model, decoys_only, main, page
from benchmarks.analysis.llm.checkout import HOME
from benchmarks.analysis.llm.decoys import Decoys, changed, try_decoys, wrong
from benchmarks.analysis.llm.fusions import Fusions
from benchmarks.analysis.llm.generated_kernels import generated
from benchmarks.analysis.llm.read_prim_funcs import (
    Oracle,
    Reading,
    bare_name,
    grouped,
    read,
    unnamed,
)
from benchmarks.analysis.llm.run_answers import compare, serial
from opinfo.analysis import Chain, OpInfo
from opinfo.analysis.chain import Chains
from opinfo.analysis.recognise import Matches
from opinfo.testing.calls import lower
from opinfo.testing.strip import strip


def _answered(case: Matches) -> tuple[Any, Chain]:
    func = strip(lower(case))
    chain = Chains()(func)
    assert isinstance(chain, Chain)
    return func, chain


def test_a_right_answer_agrees_and_a_wrong_one_does_not() -> None:
    func, chain = _answered(Matches("relax.subtract", ("float32[n, 4]", "float32[4]")))
    assert compare(func, chain) is None
    (step,) = chain.steps
    assert isinstance(step.info, OpInfo)
    wrong = replace(step, info=replace(step.info, name="relax.add"))
    difference = compare(func, replace(chain, steps=(wrong,)))
    assert difference is not None and "differs by" in difference


def test_indices_are_in_range() -> None:
    func, chain = _answered(Matches("relax.take", ("float32[9, 4]", "int32[n]"), {"axis": 0}))
    assert compare(func, chain) is None


def test_threads_become_loops() -> None:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def doubled(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")) -> None:
        for i in T.thread_binding(8, thread="threadIdx.x"):
            out[i] = x[i] + x[i]

    assert "thread_binding" not in serial(doubled).script()
    chain = Chains()(doubled)
    assert isinstance(chain, Chain) and compare(doubled, chain) is None


def test_operators_that_a_name_says_must_be_among_the_steps() -> None:
    _, chain = _answered(Matches("relax.nn.softmax", ("float32[4, 5]",), {"axis": -1}))
    assert not list(unnamed("fused_softmax1_cast", chain.steps))
    assert list(unnamed("fused_NT_matmul2_softmax", chain.steps)) == ["matmul"]
    assert bare_name("fused_dequantize1_NT_matmul10") == "fused_dequantize_NT_matmul"


def test_a_module_is_read_and_counted() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.silu(builder.emit(relax.op.exp(x))))
        builder.emit_func_output(out)
    row = read(relax.transform.LegalizeOps()(builder.get()), "last", Oracle())
    assert (row.functions, row.answered, row.run, row.wrong) == (2, 2, 2, [])


def test_the_page_counts_what_is_refused_and_wrong() -> None:
    row = Reading("last", 4, 2, 1, 3.0, 0.5, 2, refused=[("f1", "a loop")], wrong=[("g", "by 1")])
    fusions = [asdict(Fusions("transpose and product", 3, 2, [], ["matmul"]))]
    text = page([Model("llama.q0f16", [asdict(row)], fusions)])
    assert "75.0 %" in text and "Wrong: 1 of 2" in text
    assert "| a loop | 1 | `f` |" in text
    assert "| llama.q0f16 | transpose and product | 3 | 2 | 0 | 1 x matmul |" in text
    assert grouped([("a", "x"), ("b1", "y"), ("b2", "y")])[0] == ("y", 2, "`b`")


def test_without_a_checkout_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.setattr(sys, "argv", ["benchmarks.llm"])
    main()
    assert f"set {HOME}" in capsys.readouterr().out


def test_decoys_compute_something_else_and_get_no_answer_of_their_kernel() -> None:
    case = Matches("relax.nn.group_dequantize", ("uint32[2, 2]", "float16[2, 1]"),
                   {"bits": 4, "group_size": 16, "offset": 7.0})  # fmt: skip
    func = lower(case)
    mod = tvm.IRModule({"dequantize": func, "other": func})
    (row,) = try_decoys("model", mod, set(), limit=3)
    assert (row.decoys, row.refused + row.answered, row.wrong) == (3, 3, [])
    _, mutant = next(changed(strip(func)))
    truth = Chains()(strip(func))
    assert isinstance(truth, Chain)
    assert wrong(mutant, truth, truth) == "the answer for the kernel"


def test_decoys_alone_write_their_part_of_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [Decoys("kernel", "cache", 3, 2, 1)]
    monkeypatch.setattr(command, "make", lambda *args: {"legalised": tmp_path})
    monkeypatch.setattr(command, "load", lambda path: None)
    monkeypatch.setattr(command, "_try_decoys", lambda name, mod, tried: iter(rows))
    path = tmp_path / "llm.md"
    path.write_text("head\n\n## Decoys\n\nold\n\n## Refused\n\nrest\n", encoding="utf-8")
    assert decoys_only(tmp_path, path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("head\n\n## Decoys") and text.endswith("\n\n## Refused\n\nrest\n")
    assert "old" not in text and f"{3 * len(command.DECOYS)} decoys, 0 with a wrong" in text
    rows[0].wrong.append(("change", "answer"))
    assert not decoys_only(tmp_path, None)


def test_kernels_that_are_generated_are_answered() -> None:
    for kind, mod in generated().items():
        (func,) = mod.functions.values()
        assert isinstance(Chains()(strip(func)), Chain), kind
