"""The ways to run a convolution with cuDNN, and what is remembered of the fastest one."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .nvidia_library import convolutions, load_copy


@pytest.fixture(scope="module")
def library() -> Path:
    return convolutions()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    return tmp_path / "cudnn"


def run(loaded: Any, *ways: int, pixels: int = 5, most_operations: int = 99) -> int:
    """Run it, compare the result with numpy's; ``ways``: what the stub's engines take.

    ``most_operations``: of a graph that runs after plans were chosen.
    """
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((3, pixels), (4, 3), (4,)))
    y = np.full((4, pixels), np.nan, "float32")
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, w, b, y)]
    executed = int(loaded.run(ctypes.c_int64(pixels), *ways, most_operations, *pointers))
    if executed >= 0:
        np.testing.assert_allclose(y, np.maximum(w @ x + b[:, None], 0), atol=4e-5)
    return executed


#: Whether engines fuse, also without a residual: the expected form.
FORMS = {(1, 1): "0", (1, 0): "1", (0, 0): "2"}


@pytest.mark.parametrize("ways", FORMS)
def test_what_no_engine_fuses_is_a_kernel_of_our_own(
    ways: tuple[int, int], library: Path, cache: Path, tmp_path: Path
) -> None:
    assert run(load_copy(library, tmp_path / "so"), *ways, 0) > 0
    key, choice = chosen(cache)
    assert choice.split()[0] == FORMS[ways] and choice.endswith(" end")
    assert "sm_90 x1 cudnn 91900" in key and "w,4,3,1,1" in key
    # The stub's engines 0 and 1 have Winograd and tensor cores; all take the same time.
    assert choice.split()[1] == "2"


def test_a_second_device_gets_a_plan_of_its_own_by_the_same_choice(
    library: Path, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    loaded = load_copy(library, tmp_path / "so")
    assert run(loaded, 1, 1, 0) > 0
    first = chosen(cache)
    loaded.on(1)
    assert run(loaded, 1, 1, 0) == 0, "nothing is timed again"
    assert chosen(cache) == first
    assert "does not run" not in capfd.readouterr().err


def chosen(cache: Path) -> list[str]:
    """The key of the only record, and the choice: form, engine, knobs."""
    (record,) = cache.iterdir()
    return record.read_text().splitlines()


#: Times of fused graphs, and of a convolution alone in its layout, in the other one, by an engine
#: that heuristics do not name, and relative to these with such a knob: the start of the record,
#: which has the form, the engine, the number of knobs, the kind and the value of each.
TIMES: dict[tuple[float, ...], str] = {
    (2, 1, 2, 2, 1): "2 2 1 0 7", (2, 2, 1, 2, 1): "3 2 1 0 7", (2, 2, 2, 1, 1): "2 3 0",
    (1, 2, 2, 2, 1): "0 2 1 0 7", (2, 2, 2, 3, 0.4): "2 2 1 0 4", (2, 3, 2, 4, 0.4): "3 2 1 0 4",
    (2, 4, 4, 2, 0.4): "2 3 1 0 4"}  # fmt: skip


@pytest.mark.parametrize("times", TIMES)
def test_the_fastest_form_is_taken(
    times: tuple[float, ...], library: Path, cache: Path, tmp_path: Path
) -> None:
    loaded = load_copy(library, tmp_path / "so")
    loaded.plans_times(*map(ctypes.c_float, times))
    try:
        assert run(loaded, 1, 1, 0) > 0
    finally:
        loaded.plans_times(
            *map(ctypes.c_float, (1, 1, 1, 1, 1))
        )  # all copies of the library share them
    assert chosen(cache)[1] == f"{TIMES[times]} end"
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) == 0  # another process takes it again


def test_handles_of_threads_that_ended_are_taken_again(library: Path, tmp_path: Path) -> None:
    assert load_copy(library, tmp_path / "so").handles(5) == 1


def test_a_choice_is_kept_for_other_processes(library: Path, cache: Path, tmp_path: Path) -> None:
    first = load_copy(library, tmp_path / "so")
    assert run(first, 1, 1, 0) > 0 and run(first, 1, 1, 0) == 0
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) == 0
    assert run(first, 1, 1, 0, pixels=6) > 0
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("text", ["", "key\n0 2 1 0", "0 2 1 0 7 end\n", "{}\n-1 end\n"])
def test_a_damaged_file_is_said_and_made_again(
    text: str, library: Path, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
    (record,) = cache.iterdir()
    good = record.read_text()
    record.write_text(text)
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
    assert f"{record} is damaged; cuDNN's engines are timed again" in capfd.readouterr().err
    assert record.read_text() == good


def test_a_record_of_another_convolution_or_engine_is_not_taken(
    library: Path, cache: Path, tmp_path: Path
) -> None:
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
    (record,) = cache.iterdir()
    key, choice = record.read_text().splitlines()
    for text in (f"{key} of old\n{choice}\n", f"{key}\n0 9 0 end\n", f"{key}\n0 1 0 end\n"):
        record.write_text(text)
        assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
        assert record.read_text() == f"{key}\n{choice}\n"


def test_a_folder_that_others_can_write_to_is_not_read(
    library: Path, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
    cache.chmod(0o777)
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0) > 0
    assert "can be written by other users" in capfd.readouterr().err


def test_regions_with_the_same_convolution_share_what_is_chosen(
    library: Path, cache: Path, tmp_path: Path
) -> None:
    loaded = load_copy(library, tmp_path / "so")
    assert run(loaded, 1, 1, 0) > 0
    for record in cache.iterdir():
        record.unlink()
    assert run(loaded, 1, 1, 0) == 0 and not list(cache.iterdir())


def test_so_many_plans_are_timed(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = []
    for plans in ("1", "2", "none"):
        monkeypatch.setenv("OPINFO_CUDNN_PLANS", plans)
        monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / plans))
        # The stub names three configurations of the engine that is allowed. A convolution alone has
        # one more engine, in either layout, and three other values of a knob of both. Each is run
        # twice, then the best of three forms.
        timed.append(run(load_copy(library, tmp_path / "so"), 1, 0, 0))
    assert timed == [2 * (n + 2 * (n + 1 + 2 * 3) + 3) for n in (1, 2, 3)]


def test_after_the_time_is_spent_the_first_plan_is_taken_and_not_kept(
    library: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CUDNN_SECONDS", "0")
    for ways in FORMS:
        assert run(load_copy(library, tmp_path / "so"), *ways, 0) == 0
    assert not cache.exists()


def test_nothing_is_timed_while_a_graph_is_captured(
    library: Path, cache: Path, tmp_path: Path
) -> None:
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 7) == 0
    assert not cache.exists()


def test_a_plan_that_is_refused_when_it_is_run_is_replaced(
    library: Path, cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = load_copy(library, tmp_path / "so")
    assert run(first, 1, 1, 0, most_operations=1) > 0
    told = capfd.readouterr().err
    assert told.count("opinfo: conv: cuDNN does not run the engine that was chosen") == 1
    (record,) = cache.iterdir()
    assert record.read_text().splitlines()[1].startswith("2 ")
    assert run(first, 1, 1, 0, most_operations=1) == 0
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0, most_operations=1) == 0
    assert not capfd.readouterr().err


def test_a_convolution_that_no_plan_runs_raises(library: Path, cache: Path, tmp_path: Path) -> None:
    assert run(load_copy(library, tmp_path / "so"), 1, 1, 0, most_operations=0) == -1
