"""Products of float32 by pieces over the stub, with kernels for the host."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: act(alpha a b + residual + bias) with constant b: returns how many products of bfloat16 ran in a
#: call, -1 if it throws. `captured`: the kernel is made while some graph is captured. `in_place`:
#: the residual is in d, if 2 only when the kernel is called. `graph`: the call is captured, and
#: runs in `replay`.
HARNESS = """
extern "C" void image(const char* path) {
  auto* image = new DLTensor{};
  image->data = const_cast<char*>(path);
  constants().push_back(std::make_unique<Constant>(image));
}
extern "C" void pieces_time(float time) { stub::product_pieces = time; }
extern "C" int named() { return stub::products_named; }
struct Wanted {
  int64_t rows, cols, sum, turned_b, epilogue, alignment, captured, waits, in_place, graph, pieces;
  float alpha, most;
};
static cudaGraphExec_t exec = nullptr;
extern "C" int replay() {
  stub::pieces_ran = 0;
  cudaGraphLaunch(exec, nullptr);
  return stub::pieces_ran;
}
static void run_or_capture(const Kernel& kernel, void* const* data, bool graph) {
  if (!graph) return kernel(data, nullptr);
  cudaStream_t stream = nullptr;
  cudaGraph_t captured = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  kernel(data, stream);
  cudaStreamEndCapture(stream, &captured);
  cudaGraphInstantiateWithFlags(&exec, captured, 0);
}
extern "C" int multiply(const Wanted* w, float* a, float* b, float* bias, float* residual,
                        float* d) {
  void* data[] = {a, bias, w->in_place == 1 ? d : residual, d};
  Context c{"product", 0, static_cast<int>(w->alignment),
            {{w->rows, w->sum}, {w->cols}, {w->rows, w->cols}, {w->rows, w->cols}}, data,
            w->waits != 0};
  Gemm g;
  g.a = c.tensor(0), g.d = c.tensor(3);
  g.b = Operand{-1, b, w->turned_b ? Extents{w->cols, w->sum} : Extents{w->sum, w->cols}};
  g.turned_b = w->turned_b;
  if (bias != nullptr) g.bias = c.tensor(1);
  if (residual != nullptr) g.residual = c.tensor(2);
  g.epilogue = static_cast<cublasLtEpilogue_t>(w->epilogue);
  g.alpha = w->alpha, g.pieces = w->pieces ? 0 : -1, g.most = w->most;
  stub::products_named = 0;
  try {
    stub::captured = w->captured;
    static std::vector<std::unique_ptr<Kernel>> kernels;
    kernels.push_back(matmul(c, g));
    stub::captured = stub::pieces_ran = 0;
    if (w->in_place) data[2] = d;
    run_or_capture(*kernels.back(), data, w->graph != 0);
    return stub::pieces_ran;
  } catch (const opinfo::Error&) {
    stub::captured = 0;
    return -1;
  }
}
"""
EPILOGUES = {None: 1, "relu": 2, "gelu": 32}
MOST = 2.0**100


class Wanted(ctypes.Structure):
    """What the harness is given."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in (
            "rows", "cols", "sum", "turned_b", "epilogue", "alignment", "captured", "waits",
            "in_place", "graph", "pieces")],
        ("alpha", ctypes.c_float), ("most", ctypes.c_float)]  # fmt: skip


@dataclass
class Product:
    """A product with its operands, in memory that stays where it is."""

    rows: int = 5
    cols: int = 12
    sum: int = 24
    turned_b: bool = False
    activation: str | None = None
    bias: bool = False
    residual: bool = False
    alpha: float = 1.0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.rows)
        rows, cols, sum_ = self.rows, self.cols, self.sum
        self.a, self.b, self.of_columns, self.added = (
            rng.standard_normal(shape).astype("float32")
            for shape in ((rows, sum_), (sum_, cols), (cols,), (rows, cols))
        )
        self.stored = np.ascontiguousarray(self.b.T if self.turned_b else self.b)
        self.d = np.full((self.rows, self.cols), np.nan, "float32")

    def run(self, loaded: Any, alignment: int = 256, most: float = MOST, **how: int) -> int:
        """Multiply; return how many products of bfloat16 ran, -1 if it was refused."""
        epilogue = EPILOGUES[self.activation] | 4 * self.bias
        epilogue -= self.bias and self.activation is None  # of DEFAULT, which has no bit
        wanted = Wanted(self.rows, self.cols, self.sum, self.turned_b, epilogue, alignment,
                        how.get("captured", 0), how.get("waits", 0),
                        how.get("in_place", 0), how.get("graph", 0), how.get("pieces", 1),
                        self.alpha, most)  # fmt: skip
        arrays = (self.a, self.stored, self.of_columns if self.bias else None,
                  self.added if self.residual else None, self.d)  # fmt: skip
        pointers = [None if x is None else x.ctypes.data_as(ctypes.c_void_p) for x in arrays]
        return int(loaded.multiply(ctypes.byref(wanted), *pointers))

    def expected(self, dtype: str = "float64") -> Array:
        """The result, of sums in another dtype."""
        with np.errstate(all="ignore"):
            y = (self.a.astype(dtype) @ self.b.astype(dtype)) * self.alpha
            y = y + self.added * self.residual + self.of_columns * self.bias
            if self.activation == "relu":
                y = np.where(y < 0, 0, y)
            if self.activation == "gelu":
                y = 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y**3)))
        return np.asarray(y)

    def apart(self, rows: Any = slice(None)) -> float:
        """The largest difference of some rows, relative to the sums of magnitudes."""
        scale = np.abs(self.a[rows].astype("float64")) @ np.abs(self.b.astype("float64"))
        return float((np.abs(self.d[rows] - self.expected()[rows]) / np.maximum(scale, 1)).max())
