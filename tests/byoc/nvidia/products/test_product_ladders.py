"""Which algorithms of cuBLASLt products take, with rows known at run time and without."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import pytest

from .cublaslt_harness import RUNGS, run


def test_only_the_first_request_measures(process: Any) -> None:
    loaded = process()
    assert run(loaded, 5) == RUNGS
    assert [run(loaded, rows) for rows in (1, 9, 24, 33, 100, 5)] == [0] * 6
    assert run(loaded, 7, adds=1) == RUNGS  # what adds is another product
    assert run(loaded, 9, adds=1) == 0


@pytest.mark.parametrize(
    ("rows", "algorithm"), [(1, 0), (5, 0), (8, 0), (9, 1), (17, 1), (32, 1), (500, 1)]
)
def test_a_request_takes_the_algorithm_of_the_next_rung(
    rows: int, algorithm: int, process: Any
) -> None:
    """The stub's algorithm 0 is the faster one up to 8 rows."""
    loaded = process(rows=8)
    run(loaded, 2)
    assert run(loaded, rows) == 0 and loaded.ran() == algorithm


def test_a_request_takes_the_algorithm_with_the_fewest_waves_for_its_rows(process: Any) -> None:
    """Algorithm 0 computes 10 rows at once, 1 computes 15 in 1.45 times as long."""
    first, second = process(), process()
    first.waves(ctypes.c_int64(10))
    assert run(first, 2) == RUNGS
    for loaded in (first, second):  # the other reads what was kept
        for rows in range(1, 33):
            assert run(loaded, rows) == 0
            assert loaded.ran() == (1.45 * math.ceil(rows / 15) < math.ceil(rows / 10)), rows
    assert run(first, 14) == 0 and first.ran() == 1  # on the rungs 8 and 16 it is the slower one


def test_what_was_measured_for_these_rows_wins(process: Any) -> None:
    """Algorithm 0 has one wave for 24 and 32 rows, and takes as long as two at 32."""
    loaded = process()
    loaded.waves(ctypes.c_int64(32))
    loaded.misfits(ctypes.c_int64(32))
    run(loaded, 2)
    assert run(loaded, 24) == 0 and loaded.ran() == 0
    assert run(loaded, 32) == 0 and loaded.ran() == 1
    assert run(loaded, 31) == 0 and loaded.ran() == 1  # nearly as many


def test_an_algorithm_that_does_not_run_for_the_request_is_replaced(process: Any) -> None:
    loaded = process(rows=8)
    run(loaded, 2)
    loaded.stands_in(ctypes.c_int64(8), 16, 1)
    assert run(loaded, 9) == 0 and loaded.ran() == 0  # that of the rung below
    assert run(loaded, 17) == 1 and loaded.ran() == 0  # named: both rungs have algorithm 1


@pytest.mark.parametrize(("needs", "named"), [(16, 0), (32, 1)])
def test_tensors_that_are_aligned_to_less_take_what_runs_there(
    needs: int, named: int, process: Any
) -> None:
    loaded = process(alignment=needs)
    run(loaded, 2)
    assert run(loaded, 5, alignment=16) == named
    assert run(loaded, 5, alignment=16) == 0


def test_without_a_ladder_a_request_takes_the_first_algorithm(
    process: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = process(rows=0)  # algorithm 1 is always the faster one
    assert run(loaded, 9, whole=0) == 1 and loaded.ran() == 0
    assert run(loaded, 9, whole=0) == 0
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "0")
    assert run(loaded, 10) == 1 and loaded.ran() == 0
    assert not list(cache.iterdir())


def test_a_capture_measures_nothing_and_keeps_nothing(process: Any, cache: Path) -> None:
    loaded = process(rows=0)
    assert run(loaded, 9, captured=7) == 1 and loaded.ran() == 0
    assert run(loaded, 9, waits=0, captured=7) == 1 and not cache.exists()
    assert run(loaded, 9) == RUNGS and loaded.ran() == 1
    assert run(loaded, 8, captured=7) == 0 and loaded.ran() == 1


def test_ladders_are_kept_for_other_processes(process: Any, cache: Path) -> None:
    assert run(process(), 5) == RUNGS
    (record,) = cache.iterdir()
    key, text = record.read_text().splitlines()
    assert "sm_90 x1 cublaslt 130100" in key and text.split()[-1] == "end"
    assert [text.split()[k * 4] for k in range(RUNGS)] == ["1", "2", "4", "8", "16", "24", "32"]
    other = process()
    assert run(other, 6) == 0
    assert run(other, 9) == 0 and other.ran() == 1


def test_more_rows_than_a_kept_ladder_has_are_measured(
    process: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(process(), 5)
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "64")
    assert run(process(), 5) == 2  # 48 and 64
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "130")
    assert run(process(), 5) == 4  # 80, 96, 112 and 128
    assert run(process(), 5) == 0
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "640")
    assert run(process(), 5) == 10  # 160 to 512, then 576 and 640


def test_kept_algorithms_that_do_not_run_are_measured_again(process: Any) -> None:
    run(process(), 5)
    assert run(process(refused=1), 5) == 3  # the rungs 16, 24 and 32


@pytest.mark.parametrize(
    "text", ["", "1 64 0", "1 64 zz end", "0 64 00000000 end", "1 64 00000000 end", "end"]
)
def test_a_damaged_ladder_is_said_and_climbed_again(
    text: str, process: Any, cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(process(), 5)
    (record,) = cache.iterdir()
    good = record.read_text()
    record.write_text(f"{good.splitlines()[0]}\n{text}\n")
    assert run(process(), 5) == RUNGS
    told = f"{record} is damaged; cuBLASLt's algorithms are timed again"
    assert told in capfd.readouterr().err and record.read_text() == good


def test_static_products_are_measured_once_for_all_processes(process: Any) -> None:
    first = process(rows=0)
    assert run(first, 9, waits=0) == 1 and first.ran() == 1
    assert run(first, 9, waits=0) == 0
    assert run(first, 10, waits=0) == 1
    second = process(rows=0)
    assert run(second, 9, waits=0) == 0 and second.ran() == 1
    assert run(second, 9, waits=0, alignment=16) == 1


def test_a_product_that_would_change_is_not_measured(process: Any, cache: Path) -> None:
    """The residual is the result: running it twice would add twice."""
    loaded = process(rows=0)
    assert run(loaded, 9, waits=0, adds=1) == 1 and loaded.ran() == 0
    assert not cache.exists()
