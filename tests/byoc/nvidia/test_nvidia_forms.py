"""Each form of a convolution computes the same: fused by cuDNN, alone, and in the other layout.

What follows a convolution that is alone, and conversions of layouts, are kernels of our own, which
are compiled for the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opinfo.byoc.backends.nvidia.cudnn.kernels.conv_epilogue import ELEMENTS

from .nvidia_library import convolutions, in_memory, load_copy

Array = np.ndarray[Any, Any]


class Given(ctypes.Structure):
    """What the harness is given."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in (
            "element", "last", "transposed", "images", "in_", "out", "rows", "columns", "groups",
            "activation", "constant", "alignment")),
        ("limit", ctypes.c_double),
    ]  # fmt: skip


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


#: The number of an activation, its limit or slope, and the function; hard swish is
#: x * min(max(x + 3, 0), 6) / 6.
IDENTITY, RELU, CLIPPED, SIGMOID, TANH, SILU, HARD_SWISH, LEAKY_RELU = range(8)
ACTIVATIONS: tuple[tuple[int, float, Callable[[Array], Array]], ...] = (
    (0, 0.0, lambda x: x), (1, 0.0, _relu), (1, 0.5, lambda x: np.clip(x, 0, 0.5)),
    (2, 0.0, _sigmoid), (3, 0.0, np.tanh), (4, 0.0, lambda x: x * _sigmoid(x)),
    (5, 6.0, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (6, 0.125, lambda x: np.where(x > 0, x, 0.125 * x)))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A convolution of 3x3 pixels, padded by one: channels first, sizes of the image, operands."""

    last: bool
    channels: tuple[int, int] = (8, 12)
    pixels: tuple[int, int] = (5, 6)
    follows: str = "bias"
    activation: int = RELU
    groups: int = 1
    constant: bool = True
    alignment: int = 256
    transposed: bool = False
    dtype: str = "float32"


#: Parts of 16 bytes need channels that are multiples of 4, or pixels if channels come first. A tile
#: has 32 x 32 elements.
CASES = {
    "first": Case(False, pixels=(4, 6)),
    "first, odd pixels": Case(False, pixels=(5, 7)),
    "last": Case(True),
    "last, odd channels": Case(True, channels=(3, 7), pixels=(4, 8)),
    "tiles": Case(True, channels=(5, 40), pixels=(5, 9), follows="residual bias"),
    "tiles, first": Case(False, channels=(40, 33), pixels=(6, 7), follows="residual bias"),
    "no bias": Case(True, follows="residual", activation=IDENTITY),
    "nothing": Case(True, follows="", activation=IDENTITY),
    "clipped": Case(False, activation=CLIPPED),
    "sigmoid": Case(True, activation=SIGMOID),
    "tanh": Case(False, activation=TANH),
    "silu, added": Case(True, follows="bias added", activation=SILU),
    "hard swish, added": Case(False, follows="residual bias added", activation=HARD_SWISH),
    "leaky relu": Case(True, activation=LEAKY_RELU),
    "grouped": Case(True, groups=2),
    "depthwise": Case(False, channels=(12, 12), groups=12),
    "weights of the call": Case(True, constant=False),
    "not aligned": Case(True, alignment=4),
    "transposed": Case(True, channels=(8, 12), groups=2, transposed=True),
    "transposed, first": Case(False, channels=(8, 4), transposed=True),
    "float16": Case(True, channels=(8, 16), follows="residual bias", dtype="float16"),
    "float16, first": Case(False, pixels=(4, 6), activation=SILU, dtype="float16"),
    "bfloat16": Case(True, channels=(8, 7), follows="bias added", dtype="bfloat16"),
}  # fmt: skip
#: By the times of fused graphs, of a convolution alone in its layout and in the other one, and
#: whether graphs without a residual are fused.
FORMS = {0: (1, 2, 2, 1), 1: (1, 2, 2, 0), 2: (2, 1, 2, 1), 3: (2, 2, 1, 1)}


def applies(form: int, name: str) -> bool:
    """Whether a case is computed in a form; other tests compute what is fused."""
    case = CASES[name]
    if form < 2:
        return name in ("first", "last")
    if form == 2:
        return case.follows != "" or case.activation != IDENTITY
    return case.dtype == "float32"


@pytest.fixture(scope="module")
def library() -> Path:
    return convolutions()


@pytest.fixture
def loaded(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The library in memory of its own, which chooses anew."""
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setenv("OPINFO_CUDNN_PLANS", "1")
    loaded = load_copy(library, tmp_path / "copies", ELEMENTS)
    yield loaded
    loaded.forms_times(*map(ctypes.c_float, (1, 1, 1)), 0, 1)


def numbers(case: Case) -> dict[str, Array]:
    """The tensors of a case, channels first, as numbers of its dtype in float64."""
    rng = np.random.default_rng(3)
    (inner, outer), image = case.channels, case.pixels
    many, few = (inner, outer) if case.transposed else (outer, inner)
    shapes: dict[str, tuple[int, ...]] = {
        "x": (2, inner, *image),
        "w": (many, few // case.groups, 3, 3),
    }
    for name in case.follows.split():
        shapes[name] = (outer,) if name == "bias" else (2, outer, *image)
    return {n: rng.standard_normal(s).astype(ml_dtypes.bfloat16).astype("float64") / 2
            for n, s in shapes.items()}  # fmt: skip


def expected(case: Case, n: dict[str, Array]) -> Array:
    """In float64, a tap of the window after the other."""
    x, w = n["x"], n["w"]
    groups, (rows, columns) = case.groups, case.pixels
    wide = np.zeros((2, case.channels[1], rows + 2, columns + 2))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i, j in np.ndindex(3, 3):
        parts = np.split(w[:, :, i, j], groups)
        if case.transposed:
            made = [np.einsum("ncyx,co->noyx", a, b)
                    for a, b in zip(np.split(x, groups, 1), parts, strict=True)]  # fmt: skip
            wide[:, :, i : i + rows, j : j + columns] += np.concatenate(made, 1)
        else:
            window = padded[:, :, i : i + rows, j : j + columns]
            made = [np.einsum("ncyx,oc->noyx", a, b)
                    for a, b in zip(np.split(window, groups, 1), parts, strict=True)]  # fmt: skip
            wide[:, :, 1:-1, 1:-1] += np.concatenate(made, 1)
    y = wide[:, :, 1:-1, 1:-1] + n.get("residual", 0)
    y = y + n["bias"][:, None, None] if "bias" in n else y
    return np.asarray(ACTIVATIONS[case.activation][2](y) + n.get("added", 0))


def result(loaded: Any, case: Case) -> Array:
    """What the library computes, channels first."""
    stored = partial(in_memory, dtype=case.dtype, last=case.last)
    given = {name: stored(a) for name, a in numbers(case).items()}
    given["y"] = stored(np.full((2, case.channels[1], *case.pixels), np.nan))
    if case.activation == HARD_SWISH:
        given |= {"offset": np.array([3], "float32"), "factor": np.array([1 / 6], "float32")}
    names = ("x", "w", "residual", "bias", "added", "offset", "factor", "y")
    data = (ctypes.c_void_p * len(names))(
        *(given[n].ctypes.data if n in given else None for n in names)
    )
    number, limit, _ = ACTIVATIONS[case.activation]
    options = Given(ELEMENTS[case.dtype], case.last, case.transposed, 2, *case.channels,
                    *case.pixels, case.groups, number, case.constant, case.alignment,
                    limit)  # fmt: skip
    assert loaded.forms_convolve(ctypes.byref(options), data) == 0
    y = given["y"].astype("float64")
    return np.moveaxis(y, -1, 1) if case.last else y


@pytest.mark.parametrize(
    ("name", "form"), [(name, form) for name in CASES for form in FORMS if applies(form, name)]
)
def test_every_form_computes_the_same(name: str, form: int, loaded: Any, tmp_path: Path) -> None:
    case = CASES[name]
    *times, without = FORMS[form]
    loaded.forms_times(*map(ctypes.c_float, times), case.last, without)
    found, wanted = result(loaded, case), expected(case, numbers(case))
    (record,) = (tmp_path / "cudnn").iterdir()
    assert record.read_text().splitlines()[1].split()[0] == str(form)
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[case.dtype]
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


def test_halves_stay_in_their_layout(loaded: Any, tmp_path: Path) -> None:
    loaded.forms_times(*map(ctypes.c_float, (2, 2, 1)), 1, 1)
    result(loaded, CASES["float16"])
    (record,) = (tmp_path / "cudnn").iterdir()
    assert record.read_text().splitlines()[1].split()[0] == "0"
