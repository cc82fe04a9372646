"""The benchmark of a Mixtral on a CPU: its page, what it skips, and the outputs it expects."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.analysis.llm import __main__ as language_models
from benchmarks.analysis.llm import mixtral
from benchmarks.analysis.llm.checkout import HOME
from benchmarks.analysis.llm.mixtral_model import Packed, Sizes, exact, random_weights
from benchmarks.analysis.llm.mixtral_page import TITLE, Row, section
from benchmarks.common.rows import store_row

ROW = Row("mixtral", "experts, weight_only", {"weight_only": 30, "experts": 10, "tvm": 1010},
          {"weight_only": 0.25, "experts": 0.5}, 24, 8, 20, 0.001, 0.02, 5.0, 0.1, 38.2, 4.9,
          1.5, [("fused_matmul", 0.67)])  # fmt: skip
ALONE = replace(ROW, build="TVM", operators={"tvm": 9}, flops={}, step_ms=6.0)
SIZES = Sizes(hidden=64, inner=96, layers=1, vocabulary=40, heads=4, pairs=2, head=16, experts=3,
              chosen=2)  # fmt: skip


def test_a_row_has_shares_by_backend_and_the_step_beside_tvm() -> None:
    text = section([ROW, ALONE])
    assert ("| mixtral | experts, weight_only | 40 of 1,050: experts 10, weight_only 30 | "
            "75.0: experts 50.0, weight_only 25.0 | 0.0010 | 0.0200 | 38 | 4.90 | 1.50 | 0.25 |"
            ) in text  # fmt: skip
    assert "| mixtral | TVM |  |  | 0.0010 | 0.0200 | 38 | 4.90 | 6.00 | 1.00 |" in text
    assert text.rstrip().endswith("| mixtral | experts, weight_only | `fused_matmul` | 67 |")
    assert section([replace(ROW, slowest=())]).rstrip().endswith("| 1.50 |  |")
    with pytest.raises(ValueError, match="no rows"):
        section([])


def test_outputs_that_are_too_far_off_are_not_good() -> None:
    assert ROW.good and not replace(ROW, step_apart=0.2).good
    assert not replace(ROW, prompt_apart=float("nan")).good
    assert not replace(ROW, step_apart=float("nan")).good


def test_regions_are_counted_by_backend() -> None:
    regions = [SimpleNamespace(backend=b, ops=("a",) * n, flops=f)
               for b, n, f in (("blas", 2, 10), ("experts", 3, 60), ("blas", 1, 10))]  # fmt: skip
    done = SimpleNamespace(taken=regions, left=("b",) * 4, total=100)
    counts = {"blas": 3, "experts": 3, "tvm": 4}
    assert mixtral.offloaded(done) == (counts, {"blas": 0.2, "experts": 0.6})
    assert mixtral.offloaded(None) == ({}, {})


def test_without_a_checkout_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(HOME, raising=False)
    assert mixtral.main(["--keep", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("skipped: clone https://") and f"set {HOME}" in line


def test_stored_rows_are_not_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, ...]] = []

    def worker(module: str, *words: str) -> Any:
        asked.append(words[:2])
        return asdict(ROW)

    monkeypatch.setattr(mixtral, "run_worker", worker)
    file, page = tmp_path / "rows.json", tmp_path / "page.md"
    (tmp_path / "mixtral.q4f16_1.last.json").write_text("{}")
    page.write_text(f"# Head\n\nabove\n\n{TITLE}\n\nold\n", encoding="utf-8")
    store_row(file, ALONE, "model", "build")
    words = ["mixtral", "--build", ROW.build, "TVM", "--keep", str(tmp_path), "--json", str(file)]
    assert mixtral.main([*words, "--page", str(page)]) == 0
    assert mixtral.main(words) == 0
    assert asked == [("mixtral", ROW.build)]
    assert page.read_text(encoding="utf-8") == f"# Head\n\nabove\n\n{section([ROW, ALONE])}"


def test_the_page_of_language_models_keeps_the_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "llm.md"
    path.write_text(f"# Old\n\n{section([ROW])}", encoding="utf-8")
    monkeypatch.setattr(language_models, "checkout", lambda: tmp_path)
    monkeypatch.setattr(language_models, "measure", lambda n, *_: language_models.Model(n, [], []))
    monkeypatch.setattr(sys, "argv", ["benchmarks.llm", "llama.q0f16", "--page", str(path)])
    with pytest.raises(SystemExit):
        language_models.main()
    text = path.read_text(encoding="utf-8")
    assert "# Old" not in text and text.endswith(f"\n\n{section([ROW])}")


def test_a_token_sees_those_before_it() -> None:
    weights = random_weights(SIZES, 1)
    ids = np.array([3, 1, 4, 1, 5])
    long, short = exact(SIZES, weights, ids), exact(SIZES, weights, ids[:3])
    np.testing.assert_allclose(long.logits[:3], short.logits, rtol=1e-4, atol=1e-5)
    assert np.abs(long.logits[1] - long.logits[3]).max() > 1e-2  # same token, other position
    assert long.margin > 0


def test_experts_with_equal_weights_are_one_layer() -> None:
    weights = random_weights(SIZES, 2)
    for name in ("gate_up0", "down0"):
        packed = weights[name]
        assert isinstance(packed, Packed)
        words, scale = (np.stack([a[0]] * SIZES.experts) for a in (packed.words, packed.scale))
        weights[name] = Packed(words, scale)
    ids = np.array([7, 2, 9])
    alone = replace(SIZES, chosen=1)
    np.testing.assert_allclose(exact(SIZES, weights, ids).logits, exact(alone, weights, ids).logits,
                               rtol=1e-4, atol=1e-5)  # fmt: skip
