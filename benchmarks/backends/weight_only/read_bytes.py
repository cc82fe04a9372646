"""Loops that read or copy bytes as fast as the memory delivers them."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.resources import Call
from opinfo.byoc.codegen.compilers.toolchain import program

SOURCE = """
#include <cstdint>
#include <cstring>
extern "C" uint64_t read_all(const uint64_t* data, uint64_t*, int64_t count, int threads) {
  uint64_t sum = 0;
#pragma omp parallel for simd reduction(+ : sum) num_threads(threads)
  for (int64_t k = 0; k < count; ++k) sum += data[k];
  return sum;
}
extern "C" void copy_all(const uint64_t* data, uint64_t* to, int64_t count, int threads) {
#pragma omp parallel for num_threads(threads)
  for (int t = 0; t < threads; ++t) {
    const int64_t from = count * t / threads, end = count * (t + 1) / threads;
    std::memcpy(to + from, data + from, 8 * (end - from));
  }
}
"""
Maker = Callable[["np.ndarray[Any, Any]"], Call]


def loops(threads: int) -> tuple[Maker, Maker]:
    """Return two functions of an array: for a call that reads it, and for one that copies it."""
    folder = tempfile.mkdtemp()
    source, library = Path(folder) / "read.cpp", Path(folder) / "read.so"
    source.write_text(SOURCE)
    program(str(library), str(source), ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"])
    loaded = ctypes.CDLL(str(library))

    def make(function: Any, array: np.ndarray[Any, Any]) -> Call:
        words = array.reshape(-1).view("uint64")
        copied = np.ones_like(words)

        def call() -> None:
            function(ctypes.c_void_p(words.ctypes.data), ctypes.c_void_p(copied.ctypes.data),
                     ctypes.c_int64(words.size), threads)  # fmt: skip

        return call

    return (lambda array: make(loaded.read_all, array), lambda array: make(loaded.copy_all, array))
