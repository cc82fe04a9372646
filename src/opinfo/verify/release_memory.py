"""Give back the memory of a tensor whose content is not needed, but not its addresses."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import tvm

#: Smaller tensors stay: the memory beside them costs more.
LEAST = 1 << 20


def emptied(tensor: Any, kept: Sequence[Any]) -> int:
    """Give whole pages of a tensor of the CPU back to the system, and return their bytes.

    They are zeros when they are read again. A tensor in the memory of one of `kept`, such as an
    input that a model returns, stays as it was.
    """
    if not can_be_emptied(tensor, kept):
        return 0
    start, end = _memory(tensor)
    page = mmap.PAGESIZE
    first, last = -(-start // page) * page, end // page * page
    advise = ctypes.CDLL(None).madvise
    failed = advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)
    return 0 if failed else last - first


def can_be_emptied(tensor: Any, kept: Sequence[Any]) -> bool:
    """Whether a tensor is one of the CPU, large, and not in the memory of one of `kept`."""
    start, end = _memory(tensor)
    if not sys.platform.startswith("linux") or not _on_cpu(tensor) or end - start < LEAST:
        return False
    return not any(first < end and start < last for first, last in map(_memory, kept))


def _memory(tensor: Any) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and after its last one."""
    start = int(tensor.data_ptr())
    bits = int(tensor.dtype.bits) * int(tensor.dtype.lanes)
    return start, start + prod(map(int, tensor.shape)) * bits // 8


def _on_cpu(tensor: Any) -> bool:
    return bool(tensor.device.dlpack_device_type() == tvm.cpu().dlpack_device_type())
