"""Runs of the zoo: turns, pages, ended runs, models and packages that are missing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks.analysis.harvest.__main__ as harvest
import benchmarks.zoo.__main__ as zoo
from benchmarks.zoo import results_page
from benchmarks.zoo.models import fetch
from benchmarks.zoo.models.model_files import FILES
from benchmarks.zoo.torch_reference import flat
from benchmarks.zoo.turns import in_turns


def test_nested_outputs_are_flattened_in_order() -> None:
    one, two, three = (np.full(1, k) for k in range(3))
    assert [int(a[0]) for a in flat({"a": (one, [two, None]), "b": three})] == [
        0,
        1,
        2,
    ]


def test_calls_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.zoo.turns.SETTLED", 0.0)
    order: list[str] = []
    in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2, rounds=2)
    turns = [name for k, name in enumerate(order) if k == 0 or order[k - 1] != name]
    assert turns == ["a", "b", "a", "b"]


def test_one_thread_is_timed_by_its_work_and_more_by_the_clock() -> None:
    calls = {"rests": lambda: time.sleep(2e-3)}
    one, two = (in_turns(calls, threads, rounds=1) for threads in (1, 2))
    assert one.milliseconds["rests"] < 2 <= two.milliseconds["rests"]
    assert 0 <= one.busy <= 1


def _speed(name: str, milliseconds: dict[str, float], threads: int = 1) -> dict[str, object]:
    return {"name": name, "threads": threads, "refusal": "" if milliseconds else "no | kernel",
            "milliseconds": milliseconds, "missing": {}, "difference": 1e-6,
            "summary": "tvm 3; kept the choice of tvm alone: 2.0 ms; 3.0 ms by expected costs",
            "flops": 1_000_000, "rate": 1e9, "seconds": 3.0, "cpu": "A CPU (AVX2)"}  # fmt: skip


def test_pages_have_both_halves_and_geometric_means(tmp_path: Path) -> None:
    rows: dict[str, dict[str, object]] = {
        "read basic-pitch/nmp 1": {"name": "basic-pitch/nmp", "refusal": "", "symbols": 1,
                                   "differences": [1e-6, 2e-6], "spread": 1e-9, "failure": "",
                                   "seconds": 2.0},
        "read magika/model 1": {"name": "magika/model", "refusal": "", "symbols": 1,
                                "differences": [3e-3], "spread": 2e-3, "second": 2e-3,
                                "failure": "", "seconds": 2.0},
        "read trueocr/rec 1": {"name": "trueocr/rec", "refusal": "", "symbols": 1,
                               "differences": [5e-3], "spread": 1e-3, "failure": "",
                               "seconds": 2.0},
        "read nudenet/320n 1": {"name": "nudenet/320n", "refusal": "at node 'x' (Loop): stays"},
        "speed basic-pitch/nmp 1": _speed("basic-pitch/nmp", {"opinfo": 2, "onnx_runtime": 4}),
        "speed magika/model 1": _speed("magika/model", {
            "opinfo": 2, "onnx_runtime": 2, "openvino": 1}),
        "speed nudenet/320n 1": _speed("nudenet/320n", {}),
    }  # fmt: skip
    reading, read, speed, timed = results_page.write(rows, tmp_path)
    assert speed.name == "zoo-avx2.md"
    assert {**json.loads(read.read_text()), **json.loads(timed.read_text())} == rows
    text = reading.read_text()
    assert "3 of 3 are read" in text and "0 of 1 are read" in text and "(Loop): stays" in text
    assert "outputs of 1 are right, those of 1 are decided by rounding, and 1 are wrong" in text
    assert "3e-03 by rounding | 2e-03" in text and "5e-03 **wrong** | 1e-03" in text
    text = speed.read_text()
    # The best of the others take 4 and 1 ms: 0.5 and 2 are 1.00 together.
    assert "1.00 x the best of the others, 0.71 x ONNX Runtime on 2" in text
    assert "2.00 x OpenVINO on 1 (above 1.05: 1)" in text
    assert "| 2 | 0.50 |  |  | 50% | 1e-06 | 3 |" in text
    assert "kept the choice of tvm alone |" in text and "up to 3 s of CPU (above 60 s: 0)" in text
    assert "no \\| kernel" in text and "## 1 thread\n" in text


def test_an_ended_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run ends at the third of four measurements; two threads come after one."""
    asked: list[tuple[str, int]] = []

    def measured(step: str, name: str, threads: int) -> dict[str, Any]:
        asked.append((name, threads))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return _speed(name, {"opinfo": 2, "onnx_runtime": 4}, threads)

    path = tmp_path / "rows.json"
    monkeypatch.setattr(zoo, "measured", measured)
    monkeypatch.setattr(sys, "argv", ["zoo", "--step", "speed", "--json", str(path),
                                      "basic-pitch/nmp", "magika/model"])  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        zoo.main()
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    one, other = "basic-pitch/nmp", "magika/model"
    assert exited.value.code == 0
    assert asked == [(one, 1), (other, 1), (one, 2), (one, 2), (other, 2)]
    rows = json.loads(path.read_text())
    assert {(row["name"], row["threads"]) for row in rows.values()} == set(asked)
    rows[f"speed {other} 2"]["busy"] = 0.5
    path.write_text(json.dumps(rows))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--busy"])
    with pytest.raises(SystemExit):
        zoo.main()
    assert asked[5:] == [(other, 2)]
    page = results_page.speed_page("AVX2", list(rows.values()))
    assert "(above 60 s: 0). Timed while others had over 10% of the CPU" in page
    assert "which moves a call by a third: 1.\n" in page
    assert "2 of 62 models. Geometric means" in page  # those without a row are counted too
    assert "## 2 threads\n" in results_page.speed_page("AVX2", list(rows.values()))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["basic-pitch"], "unknown name 'basic-pitch': did you mean basic-pitch/nmp?"),
        (["nudnet/320n"], "unknown name 'nudnet/320n': did you mean nudenet/320n"),
        (["\x1b[31m"], "unknown name '\\x1b[31m': there are "),
        (["--threads", "0"], "expected 1 to 1024, got '0'"),
        (["--threads", "9" * 5000], "expected 1 to 1024, got '999"),
        (["--json", "/proc/nope/x"], "/proc/nope/x: No such file or directory"),
        (["--json", "{}"], "expected rows of a benchmark: "),
    ],
)
def test_wrong_options_of_the_zoo_are_one_line(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "rows.json").write_text("[1]")
    words = [str(tmp_path / "rows.json") if word == "{}" else word for word in words]
    monkeypatch.setattr(sys, "argv", ["zoo", *words])
    monkeypatch.setattr(zoo, "measured", None)  # nothing is measured before
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    *_, last = capsys.readouterr().err.splitlines()
    assert exited.value.code == 2 and reason in last


def test_a_model_that_cannot_be_downloaded_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a network, the row said that the model cannot be read, and was kept."""

    def worker(command: list[str], **options: Any) -> None:
        options["stderr"].write("Traceback\nno network\n")
        raise subprocess.CalledProcessError(fetch.NOT_FETCHED, command)

    monkeypatch.setattr(subprocess, "run", worker)
    rows = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["zoo", "--step", "read", "--json", str(rows),
                                      "basic-pitch/nmp"])  # fmt: skip
    with pytest.raises(SystemExit) as exited:
        zoo.main()
    assert exited.value.code == 1 and not rows.exists()
    assert capsys.readouterr() == ("", "basic-pitch/nmp: no network\n")


def test_what_pip_cannot_download_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "CACHE", tmp_path)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(fetch.NotFetched) as raised:
        fetch.fetched(FILES["basic-pitch/nmp"])
    text = str(raised.value)
    assert text.startswith("pip cannot download basic-pitch==") and "\n" not in text


def test_an_unwritable_cache_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(fetch, "CACHE", tmp_path / "file" / "cache")
    with pytest.raises(fetch.NotFetched, match=r"cannot fetch basic-pitch==.*Not a directory"):
        fetch.fetched(FILES["basic-pitch/nmp"])


def test_a_harvest_of_an_unknown_operator_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["harvest", "--ops", "nope"])
    with pytest.raises(SystemExit) as exited:
        harvest.main()
    assert exited.value.code == 2 and "no operator has one of 'nope'" in capsys.readouterr().err
