"""cuBLASLt products over the stub, called as C functions."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

#: a b + d of (rows, 3) and (3, 4), or without d; returns how often cuBLASLt was asked for
#: algorithms. With ``whole``, the extents of b are known when it is compiled. `ran` is the
#: algorithm that ran last.
HARNESS = """
static const int64_t input[] = {2, kDLFloat, 32, -1, 3}, weights[] = {2, kDLFloat, 32, 3, 4},
                     unknown[] = {2, kDLFloat, 32, -1, 4}, output[] = {2, kDLFloat, 32, -1, 4};
extern "C" int ran() { return stub::product_ran; }
extern "C" void stands_in(int64_t rows, int alignment, int refused) {
  stub::product_rows = rows;
  stub::product_alignment = alignment;
  stub::product_refused = refused;
}
extern "C" void turned(float time) { stub::product_turned = time; }
extern "C" void waves(int64_t rows) { stub::product_wave = rows; }
extern "C" void misfits(int64_t rows) { stub::product_misfit = rows; }
extern "C" void grows(int how) { stub::product_grows = how; }
extern "C" int run(int64_t rows, int waits, int whole, int alignment, int captured, int adds,
                   int constant, int stored_turned, float* a, float* b, float* d) {
  void* data[] = {a, b, d};
  const int64_t* specs[] = {input, whole ? weights : unknown, output};
  Context c{"product", 0, alignment, {{rows, 3}, {3, 4}, {rows, 4}}, data, waits != 0, nullptr,
            specs};
  Gemm g;
  g.a = c.tensor(0), g.b = c.tensor(1), g.d = c.tensor(2);
  if (constant) g.b = Operand{-1, b, c.extents[1]};
  g.turned_b = stored_turned;
  if (stored_turned) std::swap(g.b.extents[0], g.b.extents[1]);
  if (adds) g.residual = c.tensor(2);
  stub::captured = captured;
  stub::products_named = 0;
  std::unique_ptr<Kernel> kernel;
  try {
    kernel = matmul(c, g);
  } catch (const opinfo::Error&) {
    stub::products_named = -1;
  }
  stub::captured = 0;
  if (kernel != nullptr) (*kernel)(data, nullptr);
  return stub::products_named;
}
"""
#: Rungs up to 32 rows: 1, 2, 4, 8, 16, 24, 32; those that are powers of two.
RUNGS, POWERS = 7, 6


def run(
    loaded: Any, rows: int, waits: int = 1, whole: int = 1, alignment: int = 256,
    captured: int = 0, adds: int = 0,
) -> int:  # fmt: skip
    """Run it and compare the result with numpy's; return how often algorithms were named."""
    rng = np.random.default_rng(rows)
    a, b, d = (rng.standard_normal(s).astype("float32") for s in ((rows, 3), (3, 4), (rows, 4)))
    expected = a @ b + d * adds
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, d)]
    given = (ctypes.c_int64(rows), waits, whole, alignment, captured, adds, 0, 0, *pointers)
    named = int(loaded.run(*given))
    np.testing.assert_allclose(d, expected, atol=1e-5)
    return named
