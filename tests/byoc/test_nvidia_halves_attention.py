"""Attention of halves by a kernel of our own, compiled for the host, and when it is taken.

cuDNN's kernel is that of the stub.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opinfo.byoc.backends.nvidia.attention.attention_object import OWN, PLANS, REGION
from opinfo.byoc.backends.nvidia.attention.halves import halves_kernel
from opinfo.byoc.backends.nvidia.cudnn.cudnn import HEADERS
from opinfo.byoc.backends.nvidia.libraries.source import library_headers

from .attention.nvidia_attention_cases import Array, attended, causal
from .nvidia.nvidia_library import host_kernels, stub_library

#: Attention of (batch, position, heads, element) tensors; `times`: of cuDNN's kernel.
HARNESS = """
extern "C" void kernels(const char* path) {
  auto* image = new DLTensor{};
  image->data = const_cast<char*>(path);
  constants().push_back(std::make_unique<Constant>(image));
}
extern "C" int tried(int64_t heads, int64_t queries, int64_t keys) {
  return HalvesAttention::is_tried(heads, queries, keys);
}
extern "C" void times(float theirs) {
  stub::elapsed = 1.0f;
  stub::attention_time = theirs;
}
extern "C" int attend(int image, int bfloat16, int causal, int64_t batch, int64_t heads,
                      int64_t shared, int64_t queries, int64_t keys, int64_t d, int captured,
                      int splits, int waits, void* const* data) {
  Context c{"attention", 0, 256, {{batch, queries, heads, d}, {batch, keys, heads / shared, d},
            {batch, keys, heads / shared, d}, {batch, queries, heads, d},
            {batch, 1, queries, keys}}, data, waits != 0};
  const auto view = [&](int k, int64_t many, int64_t rows) {
    return Heads{c.tensor(k), {batch, many, rows, d}, {rows * many * d, d, many * d, 1}, 0};
  };
  Sdpa s;
  s.bfloat16 = bfloat16, s.scale = 0.25f, s.causal = causal, s.kernel = image;
  s.q = view(0, heads, queries), s.k = view(1, heads / shared, keys);
  s.v = view(2, heads / shared, keys), s.o = view(3, heads, queries);
  if (data[4] != nullptr)
    s.mask = Heads{c.tensor(4), {batch, 1, queries, keys}, {queries * keys, 1, keys, 1}, 0};
  if (splits > 0) {
    const HalvesAttention own(0, image, d, batch, own_arguments(s));
    own.launch(data[0], data[1], data[2], data[4], data[3], splits, nullptr);
    return 0;
  }
  stub::captured = captured;
  // What is timed need not be computed.
  int& skips = *static_cast<int*>(dlsym(dlopen(OPINFO_LIBCUDA, RTLD_NOW | RTLD_LOCAL), "skips"));
  try {
    skips = stub::attention_skips = true;
    const auto kernel = attention(c, s);
    skips = stub::attention_skips = stub::captured = 0;
    (*kernel)(data, nullptr);
  } catch (const opinfo::Error& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    skips = stub::attention_skips = stub::captured = 0;
    return 1;
  }
  return 0;
}
"""
NOT_CAUSAL, TOP_LEFT, BOTTOM_RIGHT = range(3)


@dataclass(frozen=True)
class Case:
    """Heads of queries, how many have the same keys, queries, keys, elements of a head."""

    heads: int = 3
    shared: int = 1
    queries: int = 40
    keys: int = 40
    head: int = 64
    causal: int = NOT_CAUSAL
    masked: bool = False
    dtype: str = "float16"


#: A warp has 16 queries, and takes 32 keys in turn.
CASES = {
    "plain": Case(),
    "one query": Case(queries=1, keys=70),
    "one key for a part": Case(queries=20, keys=33),
    "three turns": Case(queries=17, keys=300, heads=2),
    "heads of 32": Case(head=32),
    "heads of 96": Case(head=96, heads=1),
    "heads of 128": Case(head=128, heads=2),
    "causal": Case(causal=TOP_LEFT, queries=70, keys=70, heads=2),
    "causal, more keys": Case(causal=BOTTOM_RIGHT, queries=20, keys=150, heads=2),
    "causal, from the first key": Case(causal=TOP_LEFT, queries=20, keys=150, heads=2),
    "mask": Case(masked=True, queries=37),
    "mask of bfloat16": Case(masked=True, dtype="bfloat16", queries=18, keys=67),
    "shared keys": Case(heads=4, shared=2),
    "bfloat16": Case(dtype="bfloat16", queries=35, keys=67),
}
#: What kernels are compiled for.
KEYS = list(dict.fromkeys((c.head, c.dtype, c.masked) for c in CASES.values()))


@pytest.fixture(scope="module")
def library() -> Path:
    home = files("opinfo.byoc.backends.nvidia.attention")
    texts = [(home / name).read_text("utf-8") for name in (
        *PLANS, "halves/attention16.h", "halves/attention16.hpp", *REGION)]  # fmt: skip
    headers = library_headers("opinfo.byoc.backends.nvidia.cudnn", *HEADERS)
    return stub_library("".join([headers, OWN, *texts, HARNESS]))


@pytest.fixture
def loaded(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    yield process(library, tmp_path)


def process(library: Path, folder: Path) -> Any:
    """The library in memory of its own."""
    copy = folder / f"{len(list(folder.glob('*.so')))}.so"
    shutil.copy(library, copy)
    loaded = ctypes.CDLL(str(copy))
    for key in KEYS:
        loaded.kernels(host_kernels(halves_kernel.source(*key)))
    return loaded


def apart(loaded: Any, case: Case, captured: int = 0, splits: int = 0, waits: int = 0) -> float:
    """Run it, or our own kernel alone, and compare it with float64.

    Returns the largest difference, relative to the largest value.
    """
    rng = np.random.default_rng(4)
    batch = 1 if waits else 2
    kind = np.dtype(ml_dtypes.bfloat16 if case.dtype == "bfloat16" else case.dtype)
    few = case.heads // case.shared
    shapes = ((batch, case.queries, case.heads, case.head),
              *((batch, case.keys, few, case.head),) * 2)  # fmt: skip
    given = [rng.standard_normal(s).astype(kind) for s in shapes]
    out = np.full(shapes[0], np.nan).astype(kind)
    hidden = rng.standard_normal((batch, 1, case.queries, case.keys)).astype(kind)
    hidden[:, :, :, 1::4] = -np.inf
    places = [a.ctypes.data for a in (*given, out)]
    data = (ctypes.c_void_p * 5)(*places, hidden.ctypes.data if case.masked else None)
    sizes = (batch, case.heads, case.shared, case.queries, case.keys, case.head)
    image = KEYS.index((case.head, case.dtype, case.masked))
    options = (image, int(case.dtype == "bfloat16"), case.causal)
    given_sizes = map(ctypes.c_int64, sizes)
    assert loaded.attend(*options, *given_sizes, captured, splits, waits, data) == 0
    q, k, v = (a.astype("float64").transpose(0, 2, 1, 3) for a in given)
    mask: Array | float = 0.0
    if case.causal:
        rows = case.keys if case.causal == TOP_LEFT else case.queries
        mask = causal(rows, case.keys)[: case.queries]
    if case.masked:
        mask = hidden.astype("float64")
    k, v = (a.repeat(case.shared, 1) for a in (k, v))
    expected = attended(q, k, v, 0.25, mask)
    found = out.astype("float64").transpose(0, 2, 1, 3)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def record(folder: Path) -> str:
    (path,) = (folder / "cudnn").iterdir()
    return path.read_text().splitlines()[1]


@pytest.mark.parametrize(("name", "splits"), [
    *((name, 4) for name in CASES), ("plain", 1), ("one key for a part", 2), ("causal", 2),
    ("causal, more keys", 1)])  # fmt: skip
def test_the_result_is_that_of_float64(name: str, splits: int, loaded: Any) -> None:
    case = CASES[name]
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}[case.dtype]
    assert apart(loaded, case, splits=splits) < tolerance


SMALL = Case(heads=1, queries=8, keys=8, head=32)


@pytest.mark.parametrize(("theirs", "taken"), [(0.5, "0"), (2.0, "4")])
def test_the_faster_kernel_is_taken(
    theirs: float, taken: str, loaded: Any, library: Path, tmp_path: Path
) -> None:
    loaded.times(ctypes.c_float(theirs))
    assert apart(loaded, SMALL) < 2e-3 and record(tmp_path) == f"{taken} end"
    other = process(library, tmp_path)
    other.times(ctypes.c_float(1 / theirs))
    assert apart(other, SMALL) < 2e-3 and record(tmp_path) == f"{taken} end"


#: So many heads are few enough for one of the plans for many shapes: one member, 128 positions.
MANY = Case(heads=132, queries=8, keys=8, head=32)


@pytest.mark.parametrize(("theirs", "taken"), [(0.5, "0"), (2.0, "4")])
def test_sizes_known_at_run_time_take_the_faster_kernel_of_a_plan(
    theirs: float, taken: str, loaded: Any, tmp_path: Path
) -> None:
    loaded.times(ctypes.c_float(theirs))
    assert apart(loaded, MANY, waits=1) < 2e-3 and record(tmp_path) == f"{taken} end"
    loaded.times(ctypes.c_float(1 / theirs))  # nothing is timed later
    shorter = Case(heads=132, queries=5, keys=5, head=32)
    assert apart(loaded, shorter, waits=1) < 2e-3 and record(tmp_path) == f"{taken} end"


def test_a_capture_times_nothing(loaded: Any, tmp_path: Path) -> None:
    loaded.times(ctypes.c_float(2))
    assert apart(loaded, SMALL, captured=7) < 2e-3
    assert not (tmp_path / "cudnn").exists()


@pytest.mark.parametrize(("sizes", "tried"), [
    ((12, 128, 128), True), ((132, 128, 128), True), ((133, 128, 128), False),
    ((12, 128, 513), False), ((6144, 49, 64), True), ((6144, 49, 65), False)])  # fmt: skip
def test_few_queries_or_keys_are_tried(
    sizes: tuple[int, int, int], tried: bool, loaded: Any
) -> None:
    assert halves_kernel.is_tried(*sizes) == tried
    assert loaded.tried(*map(ctypes.c_int64, sizes)) == int(tried)


def test_heads_of_whole_vectors_are_taken() -> None:
    assert [d for d in range(8, 168, 8) if halves_kernel.takes(d)] == [32, 64, 96, 128]
