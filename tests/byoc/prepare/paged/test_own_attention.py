"""Attention over pages and ragged batches has kernels of our own on a CPU; an oracle is numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import tvm
from tvm import tirx

from opinfo.analysis.paged.library_generators import gpu_target
from opinfo.byoc.codegen.host_target import cpu, native_target
from opinfo.byoc.prepare.paged.key_parts import KeyParts
from opinfo.byoc.prepare.paged.own_attention import own_attention
from opinfo.testing.mutants import mutants
from opinfo.testing.strip import strip

from .attention_cases import Case
from .kernel_runs import check, generated, library

ONE = (1, 1, 1, 1)
DECODES = {
    "one head, with an empty sequence": Case(1, 1, 32, "float32", ONE, (5, 40, 0, 17)),
    "heads share keys": Case(2, 8, 64, "float16", ONE[:3], (33, 1, 64)),
    "seven heads for one": Case(1, 7, 80, "float32", ONE[:2], (70, 31)),
    "features without a common vector": Case(2, 2, 36, "float32", ONE[:1], (50,)),
    "pages of four": Case(2, 4, 32, "float32", ONE[:3], (3, 4, 45), page=4),
    "bfloat16": Case(2, 4, 64, "bfloat16", ONE[:2], (20, 33)),
    "turned": Case(1, 4, 32, "float16", ONE[:2], (20, 33), turned=1),
    "hidden tokens": Case(1, 2, 32, "float32", ONE[:3], (40, 33, 70), turned=1,
                          hidden=((1, 9), (4, 20), (0, 37))),
    "16 heads for one": Case(1, 16, 64, "float32", ONE[:1], (1000,)),
}  # fmt: skip


@pytest.mark.part("one head, with an empty sequence", "heads share keys", "seven heads for one",
                  "features without a common vector", "bfloat16", "hidden tokens")  # fmt: skip
@pytest.mark.parametrize("name", DECODES)
def test_one_query_for_each_sequence(name: str) -> None:
    check("decode", DECODES[name])


PREFILLS = {
    "causal": Case(2, 4, 32, "float32", (3, 20, 1), (5, 40, 17)),
    "not causal": Case(1, 4, 32, "float16", (3, 20, 1), (5, 40, 17), causal=0),
    "no rows, and all rows": Case(1, 2, 32, "float32", (0, 50, 0), (5, 50, 7)),
    "fewer keys than rows": Case(1, 2, 32, "float32", (9, 3), (4, 3)),
    "turned": Case(1, 3, 32, "float32", (4, 9), (6, 70), turned=1),
    "a window": Case(1, 2, 32, "float32", (3, 4), (40, 70), hidden=((2, 5), (4, 20)), window=40),
    "a window, not causal": Case(1, 2, 32, "float32", (3,), (40,), causal=0, hidden=((2, 5),),
                                 window=8),
    "bfloat16, pages of eight": Case(2, 4, 64, "bfloat16", (5,), (33,), page=8, turned=1),
}  # fmt: skip


@pytest.mark.part("causal", "no rows, and all rows", "fewer keys than rows", "a window",
                  "a window, not causal", "bfloat16, pages of eight")  # fmt: skip
@pytest.mark.parametrize("name", PREFILLS)
def test_rows_of_sequences_over_pages(name: str) -> None:
    check("prefill", PREFILLS[name])


RAGGED = {
    "causal": Case(2, 4, 32, "float16", (3, 20, 1), (3, 40, 5)),
    "turned, not causal": Case(1, 4, 32, "float32", (3, 0, 7), (3, 9, 33), causal=0, turned=1),
}  # fmt: skip


@pytest.mark.parametrize("name", RAGGED)
def test_rows_of_sequences_over_keys(name: str) -> None:
    check("ragged", RAGGED[name])


CPU = {
    "decode": DECODES["heads share keys"],
    "prefill": PREFILLS["causal"],
    "ragged": RAGGED["causal"],
}


@pytest.mark.parametrize("kind", CPU)
def test_kernels_for_cpus_are_replaced_too(kind: str) -> None:
    check(kind, CPU[kind], cpu=True)
    hidden = replace(CPU[kind], hidden=((1, 1), (0, 0), (1, 2)))
    if kind == "decode":
        check(kind, hidden, cpu=True)
    if kind == "prefill":
        check(kind, replace(hidden, window=30), cpu=True)


@pytest.mark.parametrize("kind", ["decode", "ragged", "prefill"])
def test_kernels_for_cpus_compute_what_ours_do(kind: str) -> None:
    check(kind, CPU[kind], cpu=True, own=False)


@pytest.mark.parametrize("vectors", ["of eight", "of this CPU"])
def test_tiles_run_in_several_threads(vectors: str) -> None:
    mcpu = cpu() if vectors == "of this CPU" else "haswell"
    target = {"kind": "llvm", "mcpu": mcpu, "num-cores": 2}
    check("prefill", PREFILLS["causal"], target=tvm.target.Target(target))


#: A target with two threads, and batches whose keys are split: 256 keys of a part at least.
TWO = {"kind": "llvm", "mcpu": "haswell", "num-cores": 2}
SPLIT = {
    "one query": ("decode", Case(1, 4, 64, "float32", ONE[:1], (1300,))),
    "turned, with short sequences": ("decode", Case(
        1, 4, 32, "float16", ONE[:3], (900, 0, 70), turned=1)),
    "rows": ("prefill", Case(1, 2, 64, "float32", (3,), (1000,))),
    "a window": ("prefill", Case(1, 2, 64, "float32", (3, 4), (1000, 70),
                                 hidden=((2, 5), (4, 20)), window=40)),
    "nodes of a tree": ("paged tree", Case(1, 2, 64, "float32", (4,), (1000,),
                                           trees=((-1, 0, 0, 1),))),
    "keys that follow each other": ("ragged", Case(1, 4, 64, "bfloat16", (3,), (999,))),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_keys_of_few_tasks_are_split_among_threads(name: str) -> None:
    check(*SPLIT[name], target=tvm.target.Target(TWO))


def test_split_keys_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would also pass if keys were not split, and this one would not."""
    monkeypatch.setattr(KeyParts, "combined", lambda *_: tirx.Evaluate(0))
    with pytest.raises(AssertionError, match="Not equal"):
        check(*SPLIT["one query"], target=tvm.target.Target(TWO))
    check(*SPLIT["one query"], target=tvm.target.Target({**TWO, "num-cores": 1}))


@cache
def moves() -> Any:
    return strip(library._compact_kv_copy(1, 32, "float16", gpu_target()))


def test_other_functions_stay() -> None:
    case = DECODES["heads share keys"]
    _, mutant = next(iter(mutants(generated("decode", case, False))))
    for func in (moves(), mutant):
        mod = tvm.IRModule({"main": func})
        assert own_attention(mod, native_target()) is mod


def test_other_targets_keep_their_kernels() -> None:
    mod = tvm.IRModule({"main": generated("decode", DECODES["heads share keys"], True)})
    assert own_attention(mod, tvm.target.Target("c")) is mod
