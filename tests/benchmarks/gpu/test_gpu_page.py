"""Rows of GPU benchmarks: what a run does not measure again stays."""

import pytest

from benchmarks.gpu.architectures import MODES
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
