"""The kernels of few bits for AVX-512, with its instructions written out: on any CPU with AVX2."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.backends.common.region_source import VIEWS
from opinfo.byoc.backends.weight_only import packed_kernels
from opinfo.byoc.codegen.host_target import flags
from opinfo.byoc.compile import CompiledModule

from .test_stored_weights import FREE
from .test_weight_only import PORTABLE
from .weight_only_cases import (
    PRODUCTS,
    Array,
    check_close,
    check_every_product_taken,
    compiled_for,
    module,
)

#: What Intel's guide says of each intrinsic that the kernels use, lane by lane.
INSTRUCTIONS = r"""
#include <cstring>
#include <type_traits>
#include <immintrin.h>
namespace written_out {
template <typename T, typename V> struct All {
  static constexpr int count = sizeof(V) / sizeof(T);
  T at[count];
  All() : at{} {}
  All(V v) { std::memcpy(at, &v, sizeof v); }
  operator V() const { V out; std::memcpy(&out, at, sizeof out); return out; }
};
using Ints = All<int, __m512i>;
using Shorts = All<unsigned short, __m512i>;
using Bytes = All<unsigned char, __m512i>;
using SignedBytes = All<signed char, __m512i>;
using Singles = All<float, __m512>;
template <typename R, typename F> inline R each(const F& f) {
  R out;
  for (int k = 0; k < R::count; ++k) out.at[k] = f(k);
  return out;
}
inline __m512i set1_epi32(int v) { return each<Ints>([&](int) { return v; }); }
inline __m512i set1_epi8(char v) { return each<SignedBytes>([&](int) { return v; }); }
inline __m512 set1_ps(float v) { return each<Singles>([&](int) { return v; }); }
inline __m512 setzero_ps() { return Singles(); }
template <typename... T> inline __m512i set_epi32(T... all) {
  const int reversed[] = {all...};
  return each<Ints>([&](int k) { return reversed[15 - k]; });
}
inline __m512 loadu_ps(const void* p) { Singles o; std::memcpy(o.at, p, 64); return o; }
inline __m512i loadu_si512(const void* p) { Ints o; std::memcpy(o.at, p, 64); return o; }
inline void storeu_ps(void* p, __m512 v) { std::memcpy(p, &v, 64); }
inline __m512i and_si512(Ints a, Ints b) {
  return each<Ints>([&](int k) { return a.at[k] & b.at[k]; });
}
inline __m512i mullo_epi32(Ints a, Ints b) {
  return each<Ints>([&](int k) { return int(unsigned(a.at[k]) * unsigned(b.at[k])); });
}
inline __m512i srli_epi16(Shorts a, int n) {
  return each<Shorts>([&](int k) { return n > 15 ? 0 : a.at[k] >> n; });
}
inline __m128i cvtepi32_epi8(Ints a) {
  All<signed char, __m128i> out;
  for (int k = 0; k < 16; ++k) out.at[k] = static_cast<signed char>(a.at[k]);
  return out;
}
inline __m512 cvtepi32_ps(Ints a) { return each<Singles>([&](int k) { return float(a.at[k]); }); }
inline __m512 cvtph_ps(All<unsigned short, __m256i> a) {
  return each<Singles>([&](int k) { return _cvtsh_ss(a.at[k]); });
}
inline __m512 mul_ps(Singles a, Singles b) {
  return each<Singles>([&](int k) { return a.at[k] * b.at[k]; });
}
inline __m512 fmadd_ps(Singles a, Singles b, Singles c) {
  return each<Singles>([&](int k) { return __builtin_fmaf(a.at[k], b.at[k], c.at[k]); });
}
inline __m512 fnmadd_ps(Singles a, Singles b, Singles c) {
  return each<Singles>([&](int k) { return __builtin_fmaf(-a.at[k], b.at[k], c.at[k]); });
}
inline __m512 permutexvar_ps(Ints at, Singles a) {
  return each<Singles>([&](int k) { return a.at[at.at[k] & 15]; });
}
inline __m512i i32gather_epi32(Ints at, const void* from, int scale) {
  return each<Ints>([&](int k) {
    int out;
    std::memcpy(&out, static_cast<const char*>(from) + long(at.at[k]) * scale, 4);
    return out;
  });
}
inline __m512i dpbusd_epi32(Ints sum, Bytes a, SignedBytes b) {
  return each<Ints>([&](int k) {
    int out = sum.at[k];
    for (int j = 4 * k; j < 4 * k + 4; ++j) out += a.at[j] * b.at[j];
    return out;
  });
}
}  // namespace written_out
"""
NAMES = ("set1_epi32", "set1_epi8", "set1_ps", "setzero_ps", "set_epi32", "loadu_ps",
         "loadu_si512", "storeu_ps", "and_si512", "mullo_epi32", "srli_epi16", "cvtepi32_epi8",
         "cvtepi32_ps", "cvtph_ps", "mul_ps", "fmadd_ps", "fnmadd_ps", "permutexvar_ps",
         "i32gather_epi32", "dpbusd_epi32")  # fmt: skip
#: What a compiler defines for a CPU with the instructions.
DEFINED = {"AVX-512": ("F", "VL", "BW", "DQ"), "VNNI": ("F", "VL", "BW", "DQ", "VNNI")}
#: Products whose sums come close to what their integers hold.
LARGEST = ("8 bits", "4 bits, groups of 128", "2 bits, groups of 128")
#: Kernels that depend on VNNI, and those that do not: few or many words that are parameters.
FREE_NAMES = ("2 bits", "3 bits, partial words", "4 bits", "4 bits by rows", "uint8",
              "float zero points", "float16", "more than one part")  # fmt: skip
CASES = {
    "VNNI": PRODUCTS,
    "AVX-512": {
        **{name: PRODUCTS[name] for name in PORTABLE + LARGEST},
        **{f"{name}, parameters": FREE[name] for name in FREE_NAMES},
    },
}
EACH = [(level, name) for level, products in CASES.items() for name in products]

pytestmark = pytest.mark.skipif(
    not flags().issuperset(packed_kernels.GROUPS[0]), reason="it needs AVX2"
)


@cache
def _compiled(level: str) -> CompiledModule:
    macros = [f"#define __AVX512{name}__ 1" for name in DEFINED[level]]
    macros += [f"#define _mm512_{name} written_out::{name}" for name in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        views = "\n".join([INSTRUCTIONS, *macros, VIEWS])
        patch.setattr(packed_kernels, "VIEWS", views)
        quick = ["-Og" if o == "-O2" else o for o in packed_kernels.options()]
        patch.setattr(packed_kernels, "options", lambda: (*quick,))  # g++ takes a fourth as long
        return compiled_for("haswell", module(CASES[level]))


def _run(level: str, name: str, x: Array, z: Array) -> Any:
    product = CASES[level][name]
    arrays = (x, z, *(product.weights.arrays() if product.free else ()))
    function = _compiled(level).machine()[f"f{list(CASES[level]).index(name)}"]
    return function(*map(tvm.runtime.tensor, arrays)).numpy()


@pytest.mark.parametrize("level", DEFINED)
def test_every_product_is_one_region(level: str) -> None:
    check_every_product_taken(_compiled(level), len(CASES[level]))


@pytest.mark.parametrize(("level", "name"), EACH)
def test_products_equal_those_of_numpy(level: str, name: str) -> None:
    product, rng = CASES[level][name], np.random.default_rng(0)
    x, z = (rng.standard_normal((100, n)).astype(product.dtype)
            for n in (product.depth, product.columns))  # fmt: skip
    expected = product.expected(x, z)
    for rows in (*range(1, 10), 64, 65, 100):
        actual = _run(level, name, x[:rows], z[:rows])
        check_close(actual, expected[:rows], product.dtype)


@pytest.mark.parametrize("level", DEFINED)
@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_sums_do_not_overflow(name: str, level: str) -> None:
    """Where all digits are the largest, or the lowest."""
    product = PRODUCTS[name]
    x = np.full((2, product.depth), -(2.0**22) + 1, "float32")
    x[1] = -128 * (1 + 2**8 + 2**14)
    w = product.weights.values().T
    expected, bound = x.astype("float64") @ w, 1e-6 * abs(x.astype("float64")) @ abs(w)
    actual = _run(level, name, x, np.zeros((2, product.columns), "float32"))
    assert (abs(actual - expected) <= bound).all()


@pytest.mark.parametrize("level", DEFINED)
@pytest.mark.parametrize("rows", [6, 70])
def test_rows_with_infinity_and_nan(rows: int, level: str) -> None:
    """Of 70 rows those of the first 64, as the others are multiplied apart."""
    product, rng = PRODUCTS["8 bits"], np.random.default_rng(0)
    x, z = (rng.standard_normal((rows, n)).astype("float32")
            for n in (product.depth, product.columns))  # fmt: skip
    x[1, 5], x[3, 40], x[4, :2] = np.nan, np.inf, [np.inf, -np.inf]
    with np.errstate(invalid="ignore"):
        expected = product.expected(x, z)
    actual = _run(level, "8 bits", x, z)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
