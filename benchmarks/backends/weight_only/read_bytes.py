"""A loop that reads bytes as fast as the memory delivers them."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.resources import Call
from opinfo.byoc.codegen.toolchain import program

SOURCE = """
#include <cstdint>
extern "C" uint64_t read_all(const uint64_t* data, int64_t count, int threads) {
  uint64_t sum = 0;
#pragma omp parallel for simd reduction(+ : sum) num_threads(threads)
  for (int64_t k = 0; k < count; ++k) sum += data[k];
  return sum;
}
"""


def reader(threads: int) -> Any:
    """Return a function of an array that makes a call which reads it."""
    folder = tempfile.mkdtemp()
    source, library = Path(folder) / "read.cpp", Path(folder) / "read.so"
    source.write_text(SOURCE)
    program(str(library), str(source), ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"])
    read_all = ctypes.CDLL(str(library)).read_all

    def make(array: np.ndarray[Any, Any]) -> Call:
        words = array.reshape(-1).view("uint64")

        def call() -> None:
            read_all(ctypes.c_void_p(words.ctypes.data), ctypes.c_int64(words.size), threads)

        return call

    return make
