"""Convolutions of any window by `convolutions.cpp`: relu(convolution + bias + residual)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from opinfo.byoc.backends.nvidia.cudnn.kernels.conv_epilogue import ELEMENTS

from ..nvidia_library import in_memory, load_copy

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]


class Given(ctypes.Structure):
    """What the harness is given."""

    _fields_ = [
        *((n, ctypes.c_int64) for n in ("element", "last", "constant", "alignment", "groups")),
        *((name, ctypes.c_int64 * 4) for name in ("x", "w", "y")),
        *((name, ctypes.c_int64 * 2) for name in ("strides", "padding", "dilation")),
        *((n, ctypes.c_int64) for n in ("transposed", "grouped", "waits")),
    ]


@contextmanager
def slow_gradients(library: Path, folder: Path) -> Iterator[Any]:
    """A copy of the library, which chooses anew; gradients take long, kernels of our own do not."""
    loaded = load_copy(library, folder, ELEMENTS)
    loaded.own_kernels(ctypes.c_float(0.5))
    loaded.gradients(ctypes.c_float(8))
    yield loaded
    loaded.own_kernels(ctypes.c_float(0))
    loaded.gradients(ctypes.c_float(0))


def rounded(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Random tensors as numbers of bfloat16, in float64."""
    rng = np.random.default_rng(3)
    return {n: rng.standard_normal(s).astype(ml_dtypes.bfloat16).astype("float64") / 2
            for n, s in shapes.items()}  # fmt: skip


def convolve(
    loaded: Any, tensors: Mapping[str, Array], result: tuple[int, ...], dtype: str, last: bool,
    steps: tuple[Pair, Pair, Pair], constant: bool = True, alignment: int = 256, groups: int = 1,
    transposed: bool = False, grouped: int = -1, waits: bool = False,
) -> Array:  # fmt: skip
    """What the library computes of x, w, bias, perhaps residual; channels first, as the result.

    ``steps``: strides, padding, dilation. ``grouped``: the number of the kernels of groups.
    ``waits``: the sizes were unknown before the call.
    """
    stored = partial(in_memory, dtype=dtype, last=last)
    given = {name: stored(a) for name, a in tensors.items()}
    given["y"] = stored(np.full(result, np.nan))
    names = ("x", "w", "bias", "residual", "y")
    data = (ctypes.c_void_p * len(names))(
        *(given[n].ctypes.data if n in given else None for n in names)
    )
    four, two = ctypes.c_int64 * 4, ctypes.c_int64 * 2
    options = Given(ELEMENTS[dtype], last, constant, alignment, groups,
                    *(four(*given[n].shape) for n in ("x", "w", "y")),
                    *(two(*pair) for pair in steps), transposed, grouped, waits)  # fmt: skip
    assert loaded.windows_convolve(ctypes.byref(options), data) == 0
    y = given["y"].astype("float64")
    return np.moveaxis(y, -1, 1) if last else y
