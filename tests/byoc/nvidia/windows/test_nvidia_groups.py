"""Convolutions of groups by kernels of our own, which are compiled for the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opinfo.byoc.backends.nvidia.cudnn.kernels import grouped_kernel
from opinfo.byoc.backends.nvidia.cudnn.kernels.grouped_kernel import source, takes

from ..nvidia_library import host_kernels
from .window_harness import Array, convolve, rounded, slow_gradients

GROUPED = "5"
#: The number of the first constant that a test adds.
NUMBER = 3


@dataclass(frozen=True)
class Case:
    """Groups, channels of a group, pixels, the window, strides, padding, dilation."""

    groups: int = 3
    channels: tuple[int, int] = (24, 24)
    pixels: tuple[int, int] = (6, 5)
    window: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    residual: bool = True
    constant: bool = True
    dtype: str = "float16"
    #: Which of the kernels: blocks of 64 or of 128 pixels.
    kernel: int = 0

    @property
    def result(self) -> tuple[int, int]:
        a, b = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(
            self.pixels, self.padding, self.dilation, self.window, self.strides,
            strict=True))  # fmt: skip
        return a, b


#: Units of 8 channels: the 27 of a window are not a multiple of the 4 of a step; 36 and 72 are.
CASES = {
    "3 units": Case(),
    "3 units, 128 pixels": Case(kernel=1),
    "several tiles": Case(pixels=(11, 13), channels=(8, 16), groups=2),
    "several tiles of 128 pixels": Case(pixels=(11, 25), channels=(8, 16), groups=2, kernel=1),
    "4 units": Case(channels=(32, 8), groups=2, residual=False),
    "8 units": Case(channels=(64, 8), groups=2, pixels=(4, 5)),
    "more channels of y": Case(channels=(8, 64), groups=2),
    "steps": Case(strides=(2, 2), pixels=(13, 12), channels=(16, 8), groups=2),
    "steps of 3 and 1": Case(strides=(3, 1), pixels=(13, 6), channels=(16, 8), groups=2),
    "dilated": Case(dilation=(2, 3), padding=(2, 3), channels=(8, 8)),
    "1x1": Case(window=(1, 1), padding=(0, 0), channels=(8, 8), pixels=(7, 11)),
    "1x5": Case(window=(1, 5), padding=(0, 2), channels=(8, 16)),
    "4x2, no padding": Case(window=(4, 2), padding=(0, 0), channels=(8, 8), pixels=(9, 9)),
    "wide padding": Case(padding=(3, 4), channels=(8, 8)),
    "4 channels": Case(groups=4, channels=(4, 4)),
    "6 and 10 channels": Case(groups=2, channels=(6, 10), kernel=1),
    "one group of 18": Case(groups=1, channels=(18, 36)),
    "an image of 4 channels": Case(
        groups=1, channels=(4, 16), window=(7, 7), padding=(3, 3), strides=(2, 2), pixels=(15, 17)
    ),
    "weights of the call": Case(constant=False),
    "bfloat16": Case(dtype="bfloat16", kernel=1),
}


def numbers(case: Case) -> dict[str, Array]:
    inner, outer = (n * case.groups for n in case.channels)
    shapes: dict[str, tuple[int, ...]] = {
        "x": (2, inner, *case.pixels), "w": (outer, case.channels[0], *case.window),
        "bias": (outer,)}  # fmt: skip
    if case.residual:
        shapes["residual"] = (2, outer, *case.result)
    return rounded(shapes)


def expected(case: Case, n: dict[str, Array]) -> Array:
    """In float64, a tap of the window after the other."""
    (top, left), (rows, columns) = case.padding, case.result
    padded = np.pad(n["x"], ((0, 0), (0, 0), (top, top), (left, left)))
    y = np.zeros((2, case.groups * case.channels[1], rows, columns))
    for i, j in np.ndindex(*case.window):
        first = [k * d for k, d in zip((i, j), case.dilation, strict=True)]
        down, across = (slice(f, f + s * r, s) for f, s, r in zip(
            first, case.strides, case.result, strict=True))  # fmt: skip
        parts = zip(np.split(padded[:, :, down, across], case.groups, 1),
                    np.split(n["w"][:, :, i, j], case.groups), strict=True)  # fmt: skip
        y += np.concatenate([np.einsum("ncyx,oc->noyx", a, b) for a, b in parts], 1)
    return np.asarray(np.maximum(y + n["bias"][:, None, None] + n.get("residual", 0), 0))


def result(loaded: Any, case: Case, tensors: dict[str, Array], waits: bool = False) -> Array:
    loaded.kernels(host_kernels(source(case.dtype, case.channels, case.window)))
    return convolve(loaded, tensors, (2, case.groups * case.channels[1], *case.result), case.dtype,
                    True, (case.strides, case.padding, case.dilation), case.constant,
                    groups=case.groups, grouped=NUMBER, waits=waits)  # fmt: skip


def record(folder: Path) -> list[str]:
    """The form that is remembered, and the number of the kernel."""
    (kept,) = (folder / "cudnn").iterdir()
    return kept.read_text().splitlines()[1].split()[:2]


def remember(folder: Path, kernel: str) -> None:
    (kept,) = (folder / "cudnn").iterdir()
    key, text = kept.read_text().splitlines()[:2]
    words = text.split()
    kept.write_text("\n".join([key, " ".join([words[0], kernel, *words[2:]])]) + "\n")


@pytest.mark.part(*CASES.keys() - {"3 units, 128 pixels", "4 units", "steps", "1x1",
                                   "4 channels"})  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_groups_are_convolved_as_in_float64(
    name: str, library: Path, loaded: Any, tmp_path: Path
) -> None:
    case = CASES[name]
    tensors = numbers(case)
    found, wanted = result(loaded, case, tensors), expected(case, tensors)
    assert record(tmp_path)[0] == GROUPED
    if case.kernel > 0:  # as if it had been the faster one
        remember(tmp_path, str(case.kernel))
        with slow_gradients(library, tmp_path / "copies") as again:
            found = result(again, case, tensors)
        assert record(tmp_path) == [GROUPED, str(case.kernel)]
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}[case.dtype]
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["3 units", "4 channels"])
def test_what_is_not_finite_stays_in_its_group(name: str, loaded: Any) -> None:
    case = replace(CASES[name], residual=False)
    inner, outer = case.channels
    tensors = numbers(case)
    tensors["x"][:, inner : 2 * inner] = np.inf
    wanted = expected(case, {**tensors, "x": np.where(np.isinf(tensors["x"]), 0, tensors["x"])})
    others = np.r_[0:outer, 2 * outer : wanted.shape[1]]
    found = result(loaded, case, tensors)
    assert np.abs(found - wanted)[:, others].max() <= 2e-3 * wanted.max()
    assert not np.isfinite(found[:, outer : 2 * outer]).any()


def test_an_infinite_pixel_gives_infinity(loaded: Any) -> None:
    """It is multiplied by the weights of the window, and by none of the zeros that fill a step."""
    case = replace(CASES["3 units"], residual=False)
    tensors = numbers(case)
    tensors["w"] = np.abs(tensors["w"]) + 0.25
    tensors["x"][0, 30, 2, 2] = np.inf
    found, wanted = result(loaded, case, tensors), expected(case, tensors)
    assert np.isinf(wanted).sum() == 9 * case.channels[1]
    assert (np.isposinf(found) == np.isposinf(wanted)).all()
    assert not np.isnan(found).any()


def test_a_kernel_that_is_remembered_and_unknown_is_chosen_again(
    library: Path, loaded: Any, tmp_path: Path
) -> None:
    case = CASES["1x1"]
    tensors = numbers(case)
    result(loaded, case, tensors)
    remember(tmp_path, "7")
    with slow_gradients(library, tmp_path / "copies") as again:
        found = result(again, case, tensors)
    assert record(tmp_path) == [GROUPED, "0"]
    assert np.abs(found - expected(case, tensors)).max() <= 2e-3 * np.abs(found).max()


@pytest.mark.parametrize(("name", "plans"), [("3 units", 0), ("several tiles", 1)])
def test_a_new_shape_takes_the_kernel_where_cudnn_copies(
    name: str, plans: int, loaded: Any
) -> None:
    case = replace(CASES[name], residual=False)
    tensors = numbers(case)
    found, wanted = result(loaded, case, tensors, waits=True), expected(case, tensors)
    assert loaded.planned() == plans
    assert np.abs(found - wanted).max() <= 2e-3 * wanted.max()


@pytest.mark.parametrize(("version", "runs"), [("7.5", False), ("8.0", True), ("12.1", True)])
def test_older_gpus_have_no_such_instructions(
    version: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = SimpleNamespace(exist=True, compute_version=version)
    monkeypatch.setattr(grouped_kernel, "cuda_device", lambda: gpu)
    assert grouped_kernel.runs_here() == runs


@pytest.mark.parametrize(
    ("dtype", "groups", "channels", "window"),
    [("float32", 4, (8, 8), (3, 3)), ("float16", 1, (8, 8), (3, 3)), ("float16", 4, (3, 8), (3, 3)),
     ("float16", 4, (8, 1), (3, 3)), ("float16", 4, (8, 72), (3, 3)), ("float16", 4, (8, 8), (3,)),
     ("float16", 4, (8, 8), (3, 3, 3)), ("float16", 4, (64, 64), (5, 5))],
)  # fmt: skip
def test_what_the_kernels_do_not_take(
    dtype: str, groups: int, channels: tuple[int, int], window: tuple[int, ...]
) -> None:
    assert takes("float16", 4, (8, 8), (3, 3)) and takes("float16", 4, (64, 64), (3, 3))
    assert not takes(dtype, groups, channels, window)
