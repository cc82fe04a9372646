"""Processes of GPU benchmarks: what torch measured for one is not dropped by another."""

from pathlib import Path

from benchmarks.gpu.__main__ import environment

KEPT = "TORCHINDUCTOR_CACHE_DIR"


def test_each_model_and_dtype_keeps_candidates_in_its_own_folder(tmp_path: Path) -> None:
    jobs = [["gpt2-b1", "float16"], ["gpt2-b1", "bfloat16"], ["gpt2-b32", "float16"]]
    folders = [environment(tmp_path, job)[KEPT] for job in jobs]
    assert len(set(folders)) == len(jobs)
    assert all(Path(folder).is_relative_to(tmp_path.resolve()) for folder in folders)


def test_a_later_run_of_a_model_finds_its_candidates(tmp_path: Path) -> None:
    first = environment(tmp_path, ["gpt2-b1", "float16", "max-autotune"])
    later = environment(tmp_path, ["gpt2-b1", "float16", "max-autotune,reduce-overhead"])
    assert first[KEPT] == later[KEPT]
