"""Transposed convolutions with steps, as one convolution whose results are the phases of pixels.

Convolutions are those of the stub of cuDNN; what arranges weights and pixels are kernels of our
own, compiled for the host.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .window_harness import Array, convolve, rounded

PHASED = "4"


@dataclass(frozen=True)
class Case:
    """Channels in and out, pixels of x, of the window, steps, padding, and more pixels of y."""

    last: bool = True
    channels: tuple[int, int] = (5, 8)
    pixels: tuple[int, int] = (5, 4)
    window: tuple[int, int] = (4, 4)
    strides: tuple[int, int] = (2, 2)
    padding: tuple[int, int] = (1, 1)
    more: tuple[int, int] = (0, 0)
    residual: bool = False
    constant: bool = True
    alignment: int = 256
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)
    dtype: str = "float32"

    @property
    def result(self) -> tuple[int, int]:
        """The pixels of y."""
        a, b = ((n - 1) * s - 2 * p + d * (k - 1) + 1 + m for n, s, p, k, m, d in zip(
            self.pixels, self.strides, self.padding, self.window, self.more, self.dilation,
            strict=True))  # fmt: skip
        return a, b


#: A thread has 4 channels of float32, 8 of halves; a tile has 32 pixels and 32 channels.
CASES = {
    "4x4 by 2": Case(),
    "4x4 by 2, first": Case(last=False),
    "2x2 by 2": Case(window=(2, 2), padding=(0, 0)),
    "3x3 by 2": Case(window=(3, 3), more=(1, 1), residual=True),
    "3x3 by 2, no more pixels": Case(window=(3, 3)),
    "5x5 by 2, odd channels": Case(window=(5, 5), padding=(2, 2), channels=(3, 7)),
    "steps of 3 and 2": Case(window=(5, 4), strides=(3, 2), padding=(1, 1), more=(1, 0)),
    "one axis has steps": Case(window=(3, 4), strides=(1, 2), padding=(1, 1)),
    "wide padding": Case(window=(4, 4), padding=(3, 3)),
    "small window": Case(window=(1, 2), strides=(2, 3), padding=(0, 0), more=(1, 1)),
    "many channels, first": Case(last=False, channels=(33, 40), pixels=(5, 7), residual=True),
    "weights of the call": Case(constant=False),
    "weights of the call, first": Case(last=False, constant=False),
    "not aligned": Case(alignment=4),
    "float16": Case(channels=(8, 16), residual=True, dtype="float16"),
    "bfloat16, first": Case(last=False, channels=(8, 4), dtype="bfloat16"),
}
#: What has no phases.
OTHERS = {
    "no steps": Case(window=(3, 3), strides=(1, 1)),
    "grouped": Case(channels=(4, 8), groups=2),
    "dilated": Case(dilation=(2, 2)),
}


def numbers(case: Case) -> dict[str, Array]:
    """The tensors of a case, channels first, as numbers of its dtype in float64."""
    inner, outer = case.channels
    shapes: dict[str, tuple[int, ...]] = {
        "x": (2, inner, *case.pixels), "w": (inner, outer // case.groups, *case.window),
        "bias": (outer,)}  # fmt: skip
    if case.residual:
        shapes["residual"] = (2, outer, *case.result)
    return rounded(shapes)


def expected(case: Case, n: dict[str, Array]) -> Array:
    """In float64: each pixel of x adds a window to y."""
    (top, left), (rows, columns) = case.padding, case.result
    reach = [r + 2 * p + 8 for r, p in zip(case.result, case.padding, strict=True)]
    wide = np.zeros((2, case.channels[1], *reach))
    for i, j in np.ndindex(*case.window):
        parts = zip(np.split(n["x"], case.groups, 1),
                    np.split(n["w"][:, :, i, j], case.groups), strict=True)  # fmt: skip
        made = np.concatenate([np.einsum("ncyx,co->noyx", a, b) for a, b in parts], 1)
        y, x = (k * d for k, d in zip((i, j), case.dilation, strict=True))
        ends = (y + case.strides[0] * case.pixels[0], x + case.strides[1] * case.pixels[1])
        wide[:, :, y : ends[0] : case.strides[0], x : ends[1] : case.strides[1]] += made
    y = wide[:, :, top : top + rows, left : left + columns] + n["bias"][:, None, None]
    return np.asarray(np.maximum(y + n.get("residual", 0), 0))


def result(loaded: Any, case: Case) -> Array:
    """What the library computes, channels first."""
    return convolve(loaded, numbers(case), (2, case.channels[1], *case.result), case.dtype,
                    case.last, (case.strides, case.padding, case.dilation), case.constant,
                    case.alignment, case.groups, transposed=True)  # fmt: skip


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_phases_compute_a_transposed_convolution(name: str, loaded: Any, tmp_path: Path) -> None:
    case = {**CASES, **OTHERS}[name]
    found, wanted = result(loaded, case), expected(case, numbers(case))
    (record,) = (tmp_path / "cudnn").iterdir()
    assert (record.read_text().splitlines()[1].split()[0] == PHASED) == (name in CASES)
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[case.dtype]
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def test_another_form_is_taken_where_it_is_faster(loaded: Any, tmp_path: Path) -> None:
    loaded.gradients(ctypes.c_float(0.5))
    result(loaded, CASES["float16"])
    (record,) = (tmp_path / "cudnn").iterdir()
    assert record.read_text().splitlines()[1].split()[0] != PHASED
