"""Which plans of convolutions are built when a library is checked, and in its first call."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from .nvidia_library import convolutions, load_copy


@pytest.fixture(scope="module")
def library() -> Path:
    return convolutions()


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    return tmp_path / "cudnn"


def test_what_is_kept_is_not_built_when_a_library_is_checked(
    library: Path, records: Path, tmp_path: Path
) -> None:
    first = load_copy(library, tmp_path)
    assert [first.check(k) > 0 for k in range(3)] == [True, True, False]  # two share a choice
    assert len(list(records.iterdir())) == 2
    second = load_copy(library, tmp_path)
    for k in range(3):
        assert second.check(k) == 0 and second.planned() == 0


def test_the_first_call_builds_one_plan_of_each_choice(
    library: Path, records: Path, tmp_path: Path
) -> None:
    first = load_copy(library, tmp_path)
    for k in range(3):
        first.check(k)
    second = load_copy(library, tmp_path)
    second.check(0)
    assert second.first_call() == 0 and second.planned() == 2
    assert first.first_call() == 0 and first.planned() == 0  # it has them


def test_only_what_is_not_kept_is_prepared_for_a_check(
    library: Path, records: Path, tmp_path: Path
) -> None:
    alone = load_copy(library, tmp_path)
    alone.prepare_alone(1)
    prepared = alone.planned()
    loaded = load_copy(library, tmp_path)
    assert loaded.check(1) > 0
    both = loaded.planned()  # those of the other regions were prepared with it
    loaded.check(0)
    (wide,) = (r for r in records.iterdir() if "x,1,3,1,6" in r.read_text())
    wide.unlink()
    again = load_copy(library, tmp_path)
    assert again.check(0) == 0 and again.planned() == 0
    assert again.check(1) > 0 and again.planned() == both - prepared
    assert wide.exists()


def test_what_was_prepared_is_timed_after_the_time_is_spent(
    library: Path, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CUDNN_SECONDS", "0")
    loaded = load_copy(library, tmp_path)
    loaded.prepare_alone(0)
    assert loaded.check(0) > 0
    assert loaded.check(1) == 0  # takes the first plan
    (record,) = records.iterdir()
    assert "x,1,3,1,5" in record.read_text()


def test_a_record_that_cannot_be_taken_is_found_by_the_call(
    library: Path, records: Path, tmp_path: Path
) -> None:
    """The same version on the same device has the engine, unless somebody wrote the file."""
    load_copy(library, tmp_path).check(0)
    (record,) = records.iterdir()
    key = record.read_text().splitlines()[0]
    record.write_text(f"{key}\n0 9 0 end\n")
    loaded = load_copy(library, tmp_path)
    assert loaded.check(0) == 0 and loaded.planned() == 0
    loaded.prepare_alone(0)
    assert loaded.planned() > 1
    record.write_text(f"{key}\n7 2 0 end\n")  # no form has the number 7
    assert load_copy(library, tmp_path).check(0) > 0


def test_a_new_batch_builds_the_plans_of_all_regions_at_once(
    library: Path, records: Path, tmp_path: Path
) -> None:
    """One plan for each: nothing is timed while the call waits."""

    def call(k: int, batch: int, pixels: int) -> int:
        assert loaded.call(k, ctypes.c_int64(batch), ctypes.c_int64(pixels)) == 1
        return int(loaded.planned())

    loaded = load_copy(library, tmp_path)
    assert [call(0, 2, 5), call(1, 2, 6), call(0, 2, 5)] == [2, 0, 0]
    assert [call(1, 3, 6), call(0, 3, 5)] == [2, 0]
    assert not records.exists()


def test_a_region_of_other_sizes_builds_its_plan(
    library: Path, records: Path, tmp_path: Path
) -> None:
    loaded = load_copy(library, tmp_path)
    loaded.first_call()  # what is static has its plans
    for batch, pixels, planned in ((2, 5, 1), (2, 7, 1), (2, 5, 0)):
        assert loaded.call(2, ctypes.c_int64(batch), ctypes.c_int64(pixels)) == 1
        assert loaded.planned() == planned


def test_a_region_without_a_kernel_is_still_found(
    library: Path, records: Path, tmp_path: Path
) -> None:
    loaded = load_copy(library, tmp_path)
    loaded.runs(0)
    try:
        assert loaded.check(1) == -1 and not list(records.iterdir())
    finally:
        loaded.runs(99)  # all copies of the library share it
