"""Calibrated costs: a pure function of samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opinfo.byoc.backend.region import Call, Tensor
from opinfo.byoc.calibration.calibrations import ActiveCalibration, shipped
from opinfo.byoc.calibration.cost_model import CostModel, _fuses
from opinfo.byoc.calibration.workload import workload

from .calibrated import LARGE, SMALL, alone, call, streams, table


def test_a_workload_is_what_the_speed_depends_on() -> None:
    attrs = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC",
             "strides": [2, 2]}  # fmt: skip
    conv = call("relax.nn.conv2d", (1, 56, 28, 64), (128, 5, 1, 64), out=(1, 28, 14, 128),
                groups=1, **attrs)  # fmt: skip
    load = workload(conv)
    assert load.kind == "conv2d last dense window"
    assert load.sizes == (28, 14, 64, 128, 1, 5, 4)
    assert load.work == 28 * 14 * 128 * 64 * 5
    assert load.moved == 4 * (56 * 28 * 64 + 128 * 5 * 64 + 28 * 14 * 128)
    first = {**attrs, "data_layout": "NCHW", "out_layout": "NCHW", "kernel_layout": "OIHW"}
    deep = call("relax.nn.conv2d", (1, 64, 9, 9), (64, 1, 1, 1), out=(1, 64, 5, 5), groups=64,
                **first)  # fmt: skip
    assert workload(deep).kind == "conv2d first depthwise pointwise"
    assert workload(deep).work == 64 * 25


@pytest.mark.parametrize(("axis", "kind", "sizes"), [
    (-1, "softmax inner", (6, 4)), (1, "softmax outer", (8, 3)), (2, "softmax inner", (6, 4)),
])  # fmt: skip
def test_the_axis_of_a_softmax_is_part_of_its_kind(
    axis: int, kind: str, sizes: tuple[int, ...]
) -> None:
    load = workload(call("relax.nn.softmax", (2, 3, 4), out=(2, 3, 4), axis=axis))
    assert (load.kind, load.sizes, load.work) == (kind, sizes, 24)


def test_products_with_one_matrix_of_weights_are_one_product() -> None:
    many_rows = workload(call("relax.matmul", (2, 5, 8), (8, 3), out=(2, 5, 3)))
    assert (many_rows.kind, many_rows.sizes) == ("matmul weights", (1, 10, 3, 8))
    batched = workload(call("relax.matmul", (2, 5, 8), (2, 8, 3), out=(2, 5, 3)))
    assert (batched.kind, batched.sizes, batched.work) == ("matmul batched", (2, 5, 3, 8), 240)


def product(left: Any, right: Any) -> Call:
    """A product of (96, 64) and (64, 32), whose operands come from these sources."""
    shapes = zip((left, right), ((96, 64), (64, 32)), strict=True)
    operands = tuple(Tensor(source, 0, shape, "float32") for source, shape in shapes)
    return Call("relax.matmul", {}, operands, Tensor("call", 0, (96, 32), "float32"))


@pytest.mark.parametrize(
    ("sources", "kind"),
    [(("constant", "input"), "matmul weights-first"), (("input", "constant"), "matmul weights"),
     (("constant", "constant"), "matmul weights"), (("input", "input"), "matmul weights")],
)  # fmt: skip
def test_products_whose_weights_come_first_are_a_kind_of_their_own(
    sources: tuple[str, str], kind: str
) -> None:
    load = workload(product(*sources))
    assert (load.kind, load.sizes, load.work) == (kind, (1, 96, 32, 64), 96 * 32 * 64)


@pytest.mark.parametrize(("vectors", "slower"), [("avx2", True), ("sm_90", False)])
def test_libraries_of_a_cpu_pack_weights_that_come_second(vectors: str, slower: bool) -> None:
    calibration = table(lib=[("matmul weights", (1, 96, 32, 64), 96 * 32 * 64, 1, 101.0),
                             ("copy", (1,), 1, 1 << 20, 1.0)])  # fmt: skip
    machine = replace(calibration.machine, vectors=vectors)
    model = CostModel(replace(calibration, machine=machine))
    second, before = (model.cost("lib", alone(product(*sources)))
                      for sources in (("input", "constant"), ("constant", "input")))  # fmt: skip
    assert second is not None and before is not None and before.source == "calibrated"
    assert second.microseconds == pytest.approx(101.0)
    assert before.microseconds == pytest.approx(121.0 if slower else 101.0)


def test_a_cost_is_that_of_a_sample_and_scales_between_and_beyond() -> None:
    slow, fast = 8**3 / 1e2, 512**3 / 1e5
    model = CostModel(table(lib=[("matmul weights", SMALL, 8**3, 1, 1 + slow),
                                 ("matmul weights", LARGE, 512**3, 1, 1 + fast),
                                 ("copy", (1,), 1, 1 << 20, 100.0)]))  # fmt: skip

    def cost(n: int) -> float:
        load = call("relax.matmul", (n, n), (n, n), out=(n, n))
        estimate = model.cost("lib", alone(load))
        assert estimate is not None and estimate.source == "calibrated"
        return estimate.microseconds

    assert cost(512) == pytest.approx(1 + fast, rel=0.02)
    assert cost(8) == pytest.approx(1 + slow, rel=0.02)
    rates = [n**3 / cost(n) for n in (8, 32, 64, 128, 512)]
    assert rates == sorted(rates)
    assert 6 < cost(1024) / cost(512) < 10


def test_a_kind_without_samples_is_estimated_from_its_family() -> None:
    model = CostModel(table(lib=[("softmax inner", (64, 64), 4096, 32768, 41.0), *streams(1e4)]))
    known = model.cost("lib", alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=1)))
    other = model.cost("lib", alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=0)))
    assert known is not None and other is not None
    assert known.source == "calibrated" and other.source == "estimated"
    assert other.microseconds == pytest.approx(known.microseconds)
    assert model.cost("another", alone(call("relax.exp", (4,), out=(4,)))) is None


def test_a_convolution_of_a_line_is_one_of_a_row_of_pixels() -> None:
    sizes, work = (1, 96, 1, 1, 128, 9, 1), 96 * 128 * 9
    row = ("conv2d last depthwise window", sizes, work, 4 * 96 * 128, 30.0)
    model = CostModel(table(lib=[row, *streams(1e4)]))
    attrs = {"data_layout": "NWC", "kernel_layout": "OWI", "out_layout": "NWC", "strides": [1]}
    line = call("relax.nn.conv1d", (1, 96, 128), (128, 9, 1), out=(1, 96, 128), groups=128, **attrs)
    assert workload(line).kind == "conv1d last depthwise window" and workload(line).sizes == sizes
    cost = model.cost("lib", alone(line))
    assert cost is not None and cost.source == "calibrated"
    assert cost.microseconds == pytest.approx(30.0, rel=0.05)


def test_a_line_without_samples_of_pixels_is_estimated_from_lines() -> None:
    sizes, work = (1, 96, 8, 8, 1, 9, 1), 96 * 8 * 8 * 9
    line = ("conv1d first dense window", sizes, work, 4 * 96 * 16, 30.0)
    pixels = ("conv2d last dense window", sizes, work, 4 * 96 * 16, 300.0)
    model = CostModel(table(lib=[line, pixels, *streams(1e4)]))
    attrs = {"data_layout": "NCW", "kernel_layout": "OIW", "out_layout": "NCW", "strides": [1]}
    conv = call("relax.nn.conv1d", (1, 8, 96), (8, 8, 9), out=(1, 8, 96), groups=2, **attrs)
    assert workload(conv).kind == "conv1d first grouped window"
    cost = model.cost("lib", alone(conv))
    assert cost is not None and cost.source == "estimated" and cost.microseconds < 100.0


def test_reference_code_is_a_kind_of_its_own() -> None:
    model = CostModel(table(lib=[("softmax outer", (64, 64), 4096, 32768, 5.0), *streams(1e4)]))
    softmax = alone(call("relax.nn.softmax", (64, 64), out=(64, 64), axis=0))
    plain, reference = (model.cost("lib", softmax, kernel=k) for k in ("jit:avx2", "ref:any"))
    assert plain is not None and reference is not None
    assert plain.microseconds == pytest.approx(5.0, rel=0.01) and plain.source == "calibrated"
    assert reference.microseconds > 2 * plain.microseconds and reference.source == "estimated"


def test_a_convolution_by_winograd_is_a_kind_of_its_own() -> None:
    kind, sizes, work = "conv2d last dense window", (56, 56, 64, 64, 1, 9, 1), 9 * (56 * 64) ** 2
    moved = 4 * (2 * 56 * 56 * 64 + 9 * 64 * 64)
    direct = (kind, sizes, work, moved, 1000.0)
    faster = (f"winograd {kind}", sizes, work, moved, 400.0)
    image = (1, 56, 56, 64)
    conv = alone(
        call(
            "relax.nn.conv2d",
            image,
            (64, 3, 3, 64),
            out=image,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NHWC",
            groups=1,
            strides=[1, 1],
        )
    )

    def cost(*samples: Any, kernel: str) -> Any:
        model = CostModel(table(lib=[*samples, *streams(1e5)]))
        estimate = model.cost("lib", conv, kernel=kernel)
        assert estimate is not None
        return pytest.approx(estimate.microseconds, rel=0.01), estimate.source

    assert cost(direct, kernel="brgconv:avx2") == (1000, "calibrated")
    assert cost(direct, kernel="winograd:brg:avx2") == (500, "estimated")
    assert cost(direct, faster, kernel="winograd:brg:avx2") == (400, "calibrated")
    assert cost(direct, faster, kernel="brgconv:avx2") == (1000, "calibrated")


def test_a_product_by_tiles_is_a_kind_of_its_own() -> None:
    sizes, work = (1, 128, 512, 256), 128 * 512 * 256
    moved = 4 * (128 * 256 + 256 * 512 + 128 * 512)
    straight = ("matmul weights", sizes, work, moved, 2000.0)
    best = ("conv2d last dense pointwise", (28, 28, 64, 64, 1, 1, 1), work, moved, 900.0)
    window = ("conv2d last dense window", (28, 28, 64, 64, 1, 9, 1), work, moved, 450.0)
    sampled = ("tiled matmul weights", sizes, work, moved, 1100.0)
    rows = alone(call("relax.matmul", (128, 256), (256, 512), out=(128, 512)))

    def cost(*samples: Any, kernel: str) -> Any:
        estimate = CostModel(table(lib=[*samples, *streams(1e5)])).cost("lib", rows, kernel=kernel)
        assert estimate is not None
        return pytest.approx(estimate.microseconds, rel=0.01), estimate.source

    assert cost(straight, best, window, kernel="gemm:jit") == (2000, "calibrated")
    assert cost(straight, best, window, kernel="tiled:own") == (900 / 0.94, "estimated")
    typed = ("matmul weights int32", sizes, work, moved, 90.0)
    assert cost(straight, best, typed, kernel="tiled:own") == (900 / 0.94, "estimated")
    assert cost(straight, best, sampled, kernel="tiled:own") == (1100, "calibrated")
    faster = ("matmul weights", sizes, work, moved, 900.0)  # no tiles are chosen then
    assert cost(faster, kernel="tiled:own") == (900, "calibrated")


def test_fusion_saves_the_traffic_between_operators() -> None:
    n = 1 << 20
    model = CostModel(table(tvm=streams(1e4)))
    first = Call("relax.nn.relu", {}, (Tensor("input", 0, (n,), "float32"),),
                 Tensor("call", 0, (n,), "float32"))  # fmt: skip
    second = Call("relax.abs", {}, (first.result,), Tensor("call", 1, (n,), "float32"))
    one_call, two = (model.cost("tvm", alone(*calls)) for calls in ((first,), (first, second)))
    apart = model.cost("tvm", alone(first, second), coarse=True)
    assert one_call is not None and two is not None and apart is not None
    assert two.microseconds == pytest.approx(one_call.microseconds, rel=0.02)
    assert apart.microseconds == pytest.approx(2 * one_call.microseconds, rel=0.02)


def test_views_cost_nothing_and_conversions_their_bytes() -> None:
    model = CostModel(table(tvm=[("transpose", (1 << 20, 64), 1 << 20, 8 << 20, 2001.0),
                                 *streams(1e4)]))  # fmt: skip
    view = model.cost("tvm", alone(call("relax.reshape", (4, 4), out=(16,))))
    assert view is not None and view.microseconds == pytest.approx(1.0, rel=0.06)
    assert model.conversion(8 << 20) == pytest.approx(2001.0, rel=0.02)
    assert model.conversion(16 << 20) == pytest.approx(4000.0, rel=0.05)


def test_times_of_a_whole_model_correct_expected_costs() -> None:
    (calibration,) = [c for c in shipped() if c.machine.vectors == "avx512"]
    corrected = ActiveCalibration(calibration, None).corrected({"blas": 2.0})
    for before, after in zip(calibration.samples, corrected.calibration.samples, strict=True):
        factor = 2.0 if before.backend == "blas" else 1.0
        assert after.microseconds == factor * before.microseconds
    assert "corrected by the times of this model: blas 2.00x" in str(corrected)


def test_an_operator_is_fused_into_what_computes_its_operand() -> None:
    """Operator by operator, only into products and convolutions."""
    product = call("relax.matmul", (8, 8), (8, 8), out=(8, 8))
    norm = call("relax.nn.softmax", (8, 8), out=(8, 8), axis=-1)

    def after(k: int) -> Call:
        return Call("relax.exp", {}, (Tensor("call", k, (8, 8), "float32"),),
                    Tensor("call", 3, (8, 8), "float32"))  # fmt: skip

    first = call("relax.exp", (8, 8), out=(8, 8))
    region = alone(product, norm, first)
    fused = [[_fuses(region, c, coarse) for c in (after(0), after(1), after(2), first)]
             for coarse in (False, True)]  # fmt: skip
    assert fused == [[True, True, True, False], [True, False, False, False]]
