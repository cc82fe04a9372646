"""The kernels of convolutions of groups in half precision: see `grouped.cu`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from .....backend.region import Array
from .....codegen.loading.cuda_device import cuda_device
from ...libraries.source import tensor_cores
from ...nvrtc.kernel_image import compiled
from .conv_epilogue import defined

HALVES = ("float16", "bfloat16")
#: Channels of a group: an even number, at most this. For more, cuDNN's kernels, which copy parts of
#: the weights while others are multiplied, take less time.
MOST_CHANNELS = 64
#: Bytes of shared memory for the weights of a group; the image needs some beside them, of 96 KiB.
MOST_WEIGHTS = 88 << 10
#: The first architecture that copies and multiplies as the kernels do.
OLDEST = 8
#: cuDNN's kernels read so many channels at once. Others are copied to tensors that have them.
ALIGNED = 8


def takes(dtype: str, groups: int, channels: Sequence[int], window: Sequence[int]) -> bool:
    """Whether the kernels take a convolution.

    Args:
        dtype: Of the image and the weights.
        groups: How many groups.
        channels: Of a group, which it reads and writes.
        window: The extents of the window.
    """
    return (
        dtype in HALVES
        and len(window) == 2
        and all(n % 2 == 0 and 0 < n <= MOST_CHANNELS for n in channels)
        and (groups > 1 or any(n % ALIGNED != 0 for n in channels))
        and _weights(channels, window) <= MOST_WEIGHTS
    )


def _weights(channels: Sequence[int], window: Sequence[int]) -> int:
    """The bytes of a group's weights as a block has them: see `kRow` of `grouped.cu`."""
    units, results = (-(-n // ALIGNED) for n in channels)
    steps = -(-window[0] * window[1] * units // 4)
    return results * ALIGNED * 4 * (steps | 1) * 16


def runs_here() -> bool:
    """Whether this machine's GPU has what the kernels need; without a GPU, that of another may."""
    device = cuda_device()
    return not device.exist or int(device.compute_version.partition(".")[0]) >= OLDEST


@functools.lru_cache(maxsize=64)
def image(dtype: str, channels: tuple[int, int], window: tuple[int, int]) -> Array:
    """The compiled kernels, as bytes that CUDA's driver loads.

    Raises:
        RuntimeError: They do not compile.
    """
    return np.frombuffer(compiled(source(dtype, channels, window)), "uint8")


def source(dtype: str, channels: tuple[int, int], window: tuple[int, int]) -> str:
    """The CUDA C++ of the kernels for groups of so many channels of x and of y."""
    values = dict(zip(("IN", "OUT", "ROWS", "COLUMNS"), (*channels, *window), strict=True))
    values["BFLOAT16"] = int(dtype == "bfloat16")
    lines = "".join(f"#define {name} {value}\n" for name, value in values.items())
    texts = [(files(__package__) / f"grouped.{end}").read_text("utf-8") for end in ("h", "cu")]
    return "".join([lines, defined(dtype), tensor_cores(), *texts])
