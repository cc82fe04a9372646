"""Rows of GPU benchmarks: what a run does not measure again stays."""

import pytest

from benchmarks.gpu.architectures import MODES
from benchmarks.gpu.idle_host import section, with_idle
from benchmarks.gpu.page import joined, ratios

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


def _row(name: str, device: str, **times: float) -> dict[str, object]:
    return {"name": name, "dtype": "float16", "device": device, **times}


def test_a_run_adds_to_the_rows_of_others() -> None:
    one, two = _row("bert_base-b1", H100, ours=1.0), _row("gpt2-b1", H100, ours=2.0)
    assert joined([one], [two]) == [one, two]


def test_a_peer_that_was_not_timed_again_keeps_its_time_and_ours_of_then() -> None:
    before = _row("gpt2-b1", H100, ours=2.0, tvm=8.0, tvm_ours=2.0)
    (row,) = joined([before], [_row("gpt2-b1", H100, ours=1.0)])
    assert (row["ours"], row["tvm"], row["tvm_ours"]) == (1.0, 8.0, 2.0)


def test_peers_on_another_device_are_not_kept() -> None:
    before = _row("gpt2-b1", H100, ours=2.0, tvm=8.0, tvm_ours=2.0)
    after = _row("gpt2-b1", H200, ours=1.0)
    assert joined([before], [after]) == [after]


def test_a_row_is_compared_with_the_faster_mode_if_it_was_timed_in_both() -> None:
    slow = _row("gpt2-b1", H200, ours=1.0, **{"max-autotune": 4.0, "reduce-overhead": 2.0})
    one = _row("vit_b16-b1", H200, ours=1.0, **{"max-autotune": 4.0})
    assert ratios([slow, one], MODES) == [pytest.approx(0.5)]
    assert ratios([slow, one], ["max-autotune"]) == [pytest.approx(0.25)] * 2


def _idle(name: str, ours: float, busy: float, span: float) -> dict[str, object]:
    times = {"ours": ours, "ours_busy": busy, "ours_span": span}
    return {**_row(name, H200), **times, "ours_launches": {"GraphLaunch": 1.0}}


def test_times_on_an_idle_host_leave_the_other_times_and_outlive_a_later_run() -> None:
    before = _row("gpt2-b1", H100, ours=2.0, tvm=8.0, tvm_ours=2.0)
    other = _row("vit_b16-b1", H100, ours=3.0)
    rows = with_idle([before, other], [_idle("gpt2-b1", 1.0, 0.96, 0.98), _idle("new-b1", 1, 1, 1)])
    assert [r["name"] for r in rows] == ["gpt2-b1", "vit_b16-b1"]
    assert rows[0]["ours"] == 2.0 and rows[0]["idle"]["ours"] == 1.0
    assert rows[1] == other
    later = joined(rows, [_row("gpt2-b1", H200, ours=1.5)])
    assert later[0]["ours"] == 1.5 and later[0]["idle"] == rows[0]["idle"]


def test_the_section_of_an_idle_host_counts_models_by_both_measures() -> None:
    stored = [_row("a-b1", H100), _row("b-b1", H100), _row("c-b1", H100)]
    new = [_idle("a-b1", 1.0, 0.96, 0.97), _idle("b-b1", 1.0, 0.97, 1.1)]
    text = section(with_idle(stored, new))
    assert "at least 95 %: 2 of 2; in the profile: 1." in text
    assert "| `b-b1` | H200 | 1 | 97.0% | 88.2% | 1 |" in text and "c-b1" not in text
    assert section(stored) == ""
