"""`benchmarks.gpu`: what a profile of several calls says of one."""

from __future__ import annotations

import pytest

from benchmarks.gpu.kernel_profile import Event, is_move, summary


def test_a_slice_of_time_given_to_another_process_is_left_out() -> None:
    events = [Event("a", 10.0 * k, 10.0 * k + (3 if k != 1 else 900)) for k in range(3)]
    profile = summary(events, 3, {})
    assert profile.kernels == [("a", 1.0, 3.0)]
    assert profile.busy == pytest.approx(0.003)


def test_kernels_that_overlap_are_busy_once() -> None:
    events = [Event("a", 0, 4), Event("b", 2, 6), Event("c", 3, 4), Event("a", 8, 9)]
    profile = summary(events, 1, {})
    assert profile.kernels == [("a", 2.0, 5.0), ("b", 1.0, 4.0), ("c", 1.0, 1.0)]
    assert (profile.busy, profile.span) == pytest.approx((0.007, 0.009))


def test_calls_that_differ_are_averaged() -> None:
    profile = summary([Event("a", 0, 4), Event("b", 5, 6), Event("a", 8, 10)], 2, {})
    assert profile.kernels == [("a", 1.0, 3.0), ("b", 0.5, 0.5)]
    assert profile.busy == pytest.approx(0.0035)
    assert profile.span == 0.0  # of which call each kernel is, is unknown


def test_no_kernels_take_no_time() -> None:
    profile = summary([], 3, {"GraphLaunch": 1.0})
    assert (profile.kernels, profile.busy, profile.row()["libraries"]) == ([], 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "own", "move"),
    [
        ("fused_cast1_fused_layer_norm_cast2_kernel", True, False),
        ("fused_strided_slice1_reshape2_transpose1_concatenate_kernel", True, True),
        ("concatenate31_kernel", True, True),
        ("softmax_kernel_1", True, False),
        ("nvjet_sm90_hsh_64x64_64x13_4x2_h_bz_bias_NNT", False, False),
        ("cudnn_generated_convFwd_fort_kernel0_0", False, False),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>(int)", False, False),
        ("void cudnn::engines_precompiled::nhwcToNchwKernel<__half>(int)", False, True),
        ("Memcpy DtoD (Device -> Device)", False, True),
    ],
)
def test_names_say_whose_kernels_they_are(name: str, own: bool, move: bool) -> None:
    assert summary([Event(name, 0, 1)], 1, {}).row()["libraries"] == (0.0 if own else 1.0)
    assert is_move(name) is move
