"""Products of float32 as products of bfloat16 pieces: numbers, choices, and what is refused."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.products.cublaslt import HEADERS
from opinfo.byoc.backends.nvidia.products.pieces.pieces_kernel import source

from ..nvidia_library import host_kernels, stub_library
from .pieces_harness import HARNESS, MOST, Product

#: Three pieces are as exact as float32.
EXACT = 3e-7


@pytest.fixture(scope="module")
def harness() -> Path:
    text = library_headers("opinfo.byoc.backends.nvidia.products", *HEADERS)
    return stub_library(text + HARNESS)


@pytest.fixture
def process(harness: Path, tmp_path: Path) -> Iterator[Callable[[float], Any]]:
    """Loads the library as another process does; takes the time of pieces, relative to floats."""
    loaded: list[Any] = []

    def load(time: float = 0.5) -> Any:
        copy = tmp_path / f"{len(loaded)}.so"
        shutil.copy(harness, copy)
        loaded.append(ctypes.CDLL(str(copy)))
        loaded[-1].image(host_kernels(source()))
        loaded[-1].pieces_time(ctypes.c_float(time))
        return loaded[-1]

    yield load
    for one in loaded:
        one.pieces_time(ctypes.c_float(1))


EPILOGUES = [(act, bias, residual) for act in (None, "relu", "gelu")
             for bias in (False, True) for residual in (False, True)]  # fmt: skip


@pytest.mark.parametrize(("activation", "bias", "residual"), EPILOGUES)
@pytest.mark.parametrize("turned", [False, True])
def test_all_epilogues_follow_pieces_and_repaired_rows(
    activation: str | None, bias: bool, residual: bool, turned: bool, process: Any
) -> None:
    product = Product(turned_b=turned, activation=activation, bias=bias, residual=residual,
                      alpha=0.5)  # fmt: skip
    product.a[2] *= 2.0**110  # more than pieces are for
    product.a[2, 3:] = 0
    product.a[4] *= 2.0**-120  # less, so that the residual and the bias count
    assert product.run(process()) == 1
    assert product.apart([0, 1, 3]) < EXACT
    np.testing.assert_allclose(product.d[[2, 4]], product.expected()[[2, 4]], rtol=1e-5)


def test_rows_without_pieces_are_those_of_float32_and_leave_others_alone(process: Any) -> None:
    product = Product(rows=35, cols=516, sum=8)  # several blocks of rows, and of columns
    values = {0: np.inf, 7: -np.inf, 31: np.nan, 32: 3.4e38, 33: 2.0**101, 34: -(2.0**127)}
    for row, value in values.items():
        product.a[row, row % 8] = value
    product.b[0, 4] = product.stored[0, 4] = 0  # times infinity
    assert product.run(process()) == 1
    assert product.apart(np.setdiff1d(np.arange(35), list(values))) < EXACT
    with np.errstate(all="ignore"):
        expected = product.expected("float32")[list(values)]
    np.testing.assert_allclose(product.d[list(values)], expected, rtol=1e-4)


def test_rows_of_tiny_numbers_are_those_of_float32(process: Any) -> None:
    """The third pieces of numbers below 2^-110 are not exact."""
    product = Product()
    product.a[1] *= 2.0**-124
    product.a[3] = 0
    product.a[4, ::2] *= 2.0**-140  # beside larger ones
    assert product.run(process()) == 1
    expected = product.expected()
    np.testing.assert_allclose(product.d[1], expected[1], rtol=1e-4, atol=2.0**-144)
    assert not product.d[3].any() and product.apart([0, 2, 4]) < EXACT


@pytest.mark.parametrize("sum_", [4, 8, 516, 1032])
def test_all_numbers_of_a_row_are_cut(sum_: int, process: Any) -> None:
    product = Product(rows=3, cols=4, sum=sum_)
    assert product.run(process()) == 1
    assert product.apart() < EXACT * max(1, sum_ / 64)


def test_one_piece_less_would_be_seen(process: Any) -> None:
    """Numbers with bits in all pieces, whose product is known exactly."""
    product = Product(rows=1, cols=4, sum=4)
    product.a[:] = [[1 + 2.0**-9 + 2.0**-18, 0, 0, 0]]
    product.b[:] = product.stored[:] = 0
    product.b[0, :3] = product.stored[0, :3] = [1, 1 + 2.0**-9, 1 + 2.0**-18]
    assert product.run(process()) == 1
    np.testing.assert_allclose(product.d, product.expected(), rtol=2.0**-23)


@pytest.mark.parametrize(("time", "taken"), [(0.5, 1), (0.85, 1), (0.95, 0), (2.0, 0)])
def test_pieces_are_taken_if_they_are_clearly_faster(time: float, taken: int, process: Any) -> None:
    product = Product()
    assert product.run(process(time)) == taken and product.apart() < EXACT
    assert product.run(process(1 / time)) == taken  # which reads what was kept


def test_choices_of_earlier_versions_are_not_read(process: Any, cache: Path) -> None:
    product = Product()
    assert product.run(process(), pieces=0) == 0  # as a version without pieces writes them
    (old,) = cache.iterdir()
    assert "pieces" not in old.read_text()
    assert product.run(process()) == 1
    (new,) = set(cache.iterdir()) - {old}
    key, text = new.read_text().splitlines()
    assert key.endswith(" pieces") and text.startswith("pieces 1 64 ")
    assert product.run(process(), pieces=0) == 0


def test_a_kept_choice_without_pieces_where_there_are_none(process: Any, cache: Path) -> None:
    """A file that says pieces of a product that has none is timed again."""
    product = Product()
    product.run(process(), pieces=0)
    (record,) = cache.iterdir()
    key, text = record.read_text().splitlines()
    record.write_text(f"{key}\npieces {text}\n")
    loaded = process()
    assert product.run(loaded, pieces=0) == 0 and loaded.named() > 0
    assert product.apart() < EXACT


def test_regions_with_one_product_have_pieces_of_their_own_weights(process: Any) -> None:
    loaded = process()
    one, two = Product(), Product()
    two.b *= 3
    two.stored[:] = two.b
    assert one.run(loaded) == two.run(loaded) == 1
    assert one.apart() < EXACT and two.apart() < EXACT


@pytest.mark.parametrize("how", [
    {"captured": 7}, {"waits": 1}, {"pieces": 0}, {"alignment": 8}, {"in_place": 1}])  # fmt: skip
def test_some_calls_multiply_floats(how: dict[str, int], process: Any) -> None:
    product = Product(residual=True)
    product.d[:] = product.added
    assert product.run(process(), **how) == 0
    assert product.apart() < EXACT


def test_a_result_that_is_the_residual_is_computed_in_floats(process: Any) -> None:
    """Of a kernel that has pieces, too: rows are repaired with the residual as it was."""
    product = Product(residual=True)
    assert product.run(process()) == 1
    product.d[:] = product.added
    assert product.run(process(), in_place=2) == 0  # which measures nothing
    assert product.apart() < EXACT


def test_the_option_turns_pieces_off(process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    product = Product()
    assert product.run(process()) == 1
    monkeypatch.setenv("OPINFO_CUBLASLT_PIECES", "0")
    assert product.run(process()) == 0
    assert product.apart() < EXACT


def test_a_graph_judges_rows_anew(process: Any) -> None:
    loaded = process()
    product = Product(bias=True, activation="relu")
    assert product.run(loaded) == 1
    assert product.run(loaded, graph=1) == 0  # it is only captured
    product.a[1, 2] = np.inf
    assert loaded.replay() == 1 and product.apart([0, 2, 3, 4]) < EXACT
    assert np.isinf(product.d[1]).any()
    product.a[1, 2], product.a[3, 1] = 1, np.nan
    assert loaded.replay() == 1 and product.apart([0, 1, 2, 4]) < EXACT
    assert np.isnan(product.d[3]).all()


def test_a_kernel_that_is_made_during_a_capture_has_what_was_chosen(process: Any) -> None:
    loaded = process()
    product = Product()
    assert product.run(loaded) == product.run(loaded) == 1  # the order of weights is known now
    assert product.run(loaded, captured=7) == 1 and loaded.named() > 0
    assert product.apart() < EXACT


def test_sums_that_may_overflow_are_computed_in_floats(process: Any) -> None:
    """A limit below the numbers of a row: it is repaired, whatever the library's product was."""
    product = Product()
    assert product.run(process(), most=0.5) == 1
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(product.d, product.expected(), rtol=1e-4, atol=1e-6)
    assert MOST > 1
