"""Which algorithms of cuBLASLt products take, with rows known at run time and without."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.products.cublaslt import HEADERS

from .nvidia_library import stub_library

#: a b + d of (rows, 3) and (3, 4), or without d; returns how often cuBLASLt was asked for
#: algorithms. With ``whole``, the extents of b are known when it is compiled. `ran` is the
#: algorithm that ran last.
HARNESS = """
static const int64_t input[] = {2, kDLFloat, 32, -1, 3}, weights[] = {2, kDLFloat, 32, 3, 4},
                     unknown[] = {2, kDLFloat, 32, -1, 4}, output[] = {2, kDLFloat, 32, -1, 4};
extern "C" int ran() { return stub::product_ran; }
extern "C" void stands_in(int64_t rows, int alignment, int refused) {
  stub::product_rows = rows;
  stub::product_alignment = alignment;
  stub::product_refused = refused;
}
extern "C" void turned(float time) { stub::product_turned = time; }
extern "C" void waves(int64_t rows) { stub::product_wave = rows; }
extern "C" void misfits(int64_t rows) { stub::product_misfit = rows; }
extern "C" void grows(int how) { stub::product_grows = how; }
extern "C" int run(int64_t rows, int waits, int whole, int alignment, int captured, int adds,
                   int constant, int stored_turned, float* a, float* b, float* d) {
  void* data[] = {a, b, d};
  const int64_t* specs[] = {input, whole ? weights : unknown, output};
  Context c{"product", 0, alignment, {{rows, 3}, {3, 4}, {rows, 4}}, data, waits != 0, nullptr,
            specs};
  Gemm g;
  g.a = c.tensor(0), g.b = c.tensor(1), g.d = c.tensor(2);
  if (constant) g.b = Operand{-1, b, c.extents[1]};
  g.turned_b = stored_turned;
  if (stored_turned) std::swap(g.b.extents[0], g.b.extents[1]);
  if (adds) g.residual = c.tensor(2);
  stub::captured = captured;
  stub::products_named = 0;
  std::unique_ptr<Kernel> kernel;
  try {
    kernel = matmul(c, g);
  } catch (const opinfo::Error&) {
    stub::products_named = -1;
  }
  stub::captured = 0;
  if (kernel != nullptr) (*kernel)(data, nullptr);
  return stub::products_named;
}
"""
#: Rungs up to 32 rows: 1, 2, 4, 8, 16, 24, 32; those that are powers of two.
RUNGS, POWERS = 7, 6


@pytest.fixture(scope="module")
def library() -> Path:
    text = library_headers("opinfo.byoc.backends.nvidia.products", *HEADERS)
    return stub_library(text + HARNESS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setenv("OPINFO_CUBLASLT_ROWS", "32")
    return tmp_path / "cublaslt"


@pytest.fixture
def process(library: Path, tmp_path: Path) -> Iterator[Any]:
    """Returns the library with memory of its own, as another process has it."""
    folder = tmp_path / "so"
    folder.mkdir()
    loaded = []

    def load(rows: int = 8, alignment: int = 16, refused: int = -1) -> Any:
        copy = folder / f"{len(os.listdir(folder))}.so"
        shutil.copy(library, copy)
        loaded.append(ctypes.CDLL(str(copy)))
        loaded[-1].stands_in(ctypes.c_int64(rows), alignment, refused)
        return loaded[-1]

    yield load
    for copy in loaded:  # all copies share what the stub counts
        copy.stands_in(ctypes.c_int64(1 << 20), 16, -1)
        copy.turned(ctypes.c_float(1))
        copy.waves(ctypes.c_int64(0))
        copy.grows(0)
        copy.misfits(ctypes.c_int64(-1))


def run(
    loaded: Any, rows: int, waits: int = 1, whole: int = 1, alignment: int = 256,
    captured: int = 0, adds: int = 0,
) -> int:  # fmt: skip
    """Run it and compare the result with numpy's; return how often algorithms were named."""
    rng = np.random.default_rng(rows)
    a, b, d = (rng.standard_normal(s).astype("float32") for s in ((rows, 3), (3, 4), (rows, 4)))
    expected = a @ b + d * adds
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, d)]
    given = (ctypes.c_int64(rows), waits, whole, alignment, captured, adds, 0, 0, *pointers)
    named = int(loaded.run(*given))
    np.testing.assert_allclose(d, expected, atol=1e-5)
    return named


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


class Weights:
    """Constant weights of one region, and where they are on the device."""

    def __init__(self, loaded: Any, stored_turned: int = 0) -> None:
        rng = np.random.default_rng(2)
        self.loaded, self.stored_turned = loaded, stored_turned
        self.numbers = rng.standard_normal((3, 4)).astype("float32")
        self.memory = (self.numbers.T if stored_turned else self.numbers).copy()

    @property
    def turned(self) -> bool:
        """Whether they have another order than at first."""
        given = self.numbers.T if self.stored_turned else self.numbers
        if self.memory.tobytes() == given.tobytes():
            return False
        assert self.memory.tobytes() == given.T.tobytes()
        return True

    def run(self, rows: int, waits: int, alignment: int = 256, captured: int = 0) -> int:
        """Run a product with them, and compare the result."""
        a = np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
        d = np.full((rows, 4), np.nan, "float32")
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, self.memory, d)]
        named = int(self.loaded.run(ctypes.c_int64(rows), waits, 1, alignment, captured, 0, 1,
                                    self.stored_turned, *pointers))  # fmt: skip
        np.testing.assert_allclose(d, a @ self.numbers, atol=1e-5)
        return named


@pytest.mark.parametrize("stored_turned", [0, 1])
@pytest.mark.parametrize("waits", [0, 1])
@pytest.mark.parametrize("time", [0.5, 2.0])
def test_constant_weights_get_the_faster_order(
    time: float, waits: int, stored_turned: int, process: Any
) -> None:
    """``time``: of weights whose columns are stored one after another."""
    loaded = process()
    loaded.turned(ctypes.c_float(time))
    weights = Weights(loaded, stored_turned)
    assert weights.run(5, waits) == (RUNGS + POWERS if waits else 2)
    assert weights.turned == ((time < 1) != bool(stored_turned))
    other = Weights(loaded, stored_turned)  # of another region with this product
    assert other.run(5, waits) == 0 and other.turned == weights.turned
    if waits:  # the ladder is that of the order which they got
        assert weights.run(6, waits) == other.run(20, waits) == 0
    again = process()  # which reads what was kept
    loaded.turned(ctypes.c_float(1))
    kept = Weights(again, stored_turned)
    assert kept.run(5, waits) == 0 and kept.turned == weights.turned


def test_the_order_of_weights_is_that_which_loses_less_time(process: Any) -> None:
    """A turned order takes half the time for few rows, where a product takes hardly any."""
    loaded = process()
    loaded.grows(1)
    loaded.turned(ctypes.c_float(1.5))
    weights = Weights(loaded)
    weights.run(5, 1)
    assert not weights.turned
    loaded.turned(ctypes.c_float(0.95))
    other = Weights(process())
    other.run(5, 1)  # which is kept
    assert not other.turned


def test_weights_that_have_kernels_keep_their_order(process: Any) -> None:
    loaded = process()
    loaded.turned(ctypes.c_float(2))
    weights = Weights(loaded)
    weights.run(5, 0)
    loaded.turned(ctypes.c_float(0.5))
    assert weights.run(5, 0, alignment=16) == 1 and not weights.turned
    assert weights.run(6, 1) == RUNGS and not weights.turned
    turned = Weights(loaded)
    assert turned.run(7, 0) == 2 and turned.turned
    loaded.turned(ctypes.c_float(2))
    assert turned.run(7, 0, alignment=16) == 1 and turned.turned
    captured = Weights(loaded)
    loaded.turned(ctypes.c_float(0.5))
    assert captured.run(8, 0, captured=7) == 1 and not captured.turned
    assert captured.run(8, 0) == 1 and not captured.turned
