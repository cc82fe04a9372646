"""Merged kernels: the variant for the shape runs, and computes what the generic kernel computes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import Refusal
from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.schedule import schedule
from opinfo.jit.aot.decision_tree import decision
from opinfo.jit.aot.merge import Bucket, Exact, Ranged, Span, Variant, merge
from opinfo.jit.padding import GrownParameter, PaddingProof, pad_safe

from ...common.prim_funcs import fused
from ..legalised import kernel, module

op, nn = relax.op, relax.op.nn


def marked(value: float, **shape: int) -> Any:
    """``value`` everywhere, at one shape."""
    func = kernel(lambda x: op.clip(x, value, value), [("n", "m")])
    return bind(func, shape) if shape else func


def compiled(func: Any) -> Any:
    return tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), "llvm")[
        "main"
    ]


def run(func: Any, n: int, m: int) -> float:
    """The one number that a function of `marked` writes everywhere."""
    x = tvm.runtime.tensor(np.ones((n, m), "float32"))
    y = tvm.runtime.tensor(np.full((n, m), np.nan, "float32"))
    func(x, y)
    (found,) = np.unique(y.numpy())
    return float(found)


def test_the_first_variant_for_the_shape_runs() -> None:
    variants: list[Variant] = [
        Exact(marked(1, n=4, m=2), {"n": 4, "m": 2}),
        Exact(marked(2, n=4, m=3), {"n": 4, "m": 3}),
        Ranged(marked(3), {"n": Span(3, 8)}),
        Ranged(marked(4), {"n": Span(6, 20, 4), "m": Span(2, None, 2)}),
        Ranged(marked(5), {"n": Span(6, 20, 3)}),
    ]
    func = compiled(merge(marked(9), variants))

    def expected(n: int, m: int) -> int:
        if n == 4 and m in (2, 3):
            return m - 1
        if 3 <= n <= 8:
            return 3
        if 6 <= n <= 20 and n % 4 == 0 and m >= 2 and m % 2 == 0:
            return 4
        return 5 if 6 <= n <= 20 and n % 3 == 0 else 9

    for n in (*range(1, 23), 24, 40):
        for m in (1, 2, 3, 4, 7):
            assert run(func, n, m) == expected(n, m), (n, m)


def served(spans: Sequence[dict[str, Span]], n: int, m: int) -> int:
    """What ``decision`` chooses, by TVM's simplifier."""
    dims = {k: tirx.Var(k, "int64") for k in ("n", "m")}
    e = decision(spans, dims)
    at = {"n": n, "m": m}
    e = tvm_ffi.structural_mutate(e, [(tvm.ir.Var, lambda v, _: tirx.IntImm("int64", at[v.name]))])
    return int(tvm.sym.Analyzer().simplify(e))


def test_decisions_are_the_first_span_that_holds() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        spans = [_random_spans(rng) for _ in range(rng.integers(1, 9))]
        for n, m in rng.integers(1, 14, (12, 2)).tolist():
            at = {"n": n, "m": m}
            good = [all(_in(s, at[k]) for k, s in v.items()) for v in spans]
            assert served(spans, n, m) == (good.index(True) if True in good else len(spans)), spans


def _in(s: Span, value: int) -> bool:
    return s.low <= value <= (s.high or 99) and value % s.multiple == 0


def _random_spans(rng: np.random.Generator) -> dict[str, Span]:
    out = {}
    for name in ("n", "m"):
        low, more = int(rng.integers(1, 10)), int(rng.integers(0, 4))
        if rng.random() < 0.8:
            out[name] = Span(low, None if more == 3 else low + more, int(rng.choice([1, 1, 2, 3])))
    return out


def test_buckets_pad_with_what_the_proof_demands() -> None:
    func = kernel(lambda x, w: op.matmul(x, w), [("n", "k"), ("k", 4)])
    padded = [p for p in (pad_safe(func, "n"), pad_safe(func, "k")) if isinstance(p, PaddingProof)]
    assert len(padded) == 2
    variants = [Bucket(bind(func, {"n": 8, "k": 16}), {"n": 8, "k": 16}, padded, {"n": 2, "k": 9})]
    merged = compiled(merge(func, variants))
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 8, 9):
        for k in (3, 9, 12, 16, 17):
            x, w = (rng.standard_normal(s).astype("float32") for s in ((n, k), (k, 4)))
            y = tvm.runtime.tensor(np.full((n, 4), np.nan, "float32"))
            merged(tvm.runtime.tensor(x), tvm.runtime.tensor(w), y)
            np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-5, atol=1e-5)


def test_only_the_variant_that_runs_allocates() -> None:
    """Storage planning moves allocations out of branches: these are calls, which it leaves."""
    func = kernel(lambda x: nn.softmax(x, 1), [("n", 128)])
    (padded,) = [p for p in [pad_safe(func, "n")] if isinstance(p, PaddingProof)]
    variants: list[Variant] = [
        Exact(bind(func, {"n": 1}), {"n": 1}),
        Bucket(bind(func, {"n": 8}), {"n": 8}, [padded], {"n": 4}),
    ]
    merged = merge(func, variants).with_attr("global_symbol", "main")
    lowered_ = tvm.IRModule({"main": merged})
    for p in (tvm.s_tir.transform.LowerInitBlock(),
              tvm.s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
              tvm.s_tir.transform.ConvertBlocksToOpaque(), tvm.s_tir.transform.LowerOpaqueBlock(),
              tirx.transform.FlattenBuffer(), tirx.transform.StorageRewrite()):  # fmt: skip
        lowered_ = p(lowered_)
    before = lowered_.script().split("if ", 1)[0]
    allocated = [line for line in before.splitlines() if "alloc_buffer" in line]
    assert not [line for line in allocated if re.search(r"alloc_buffer.*\bn\b", line)], before
    assert "TVMBackendAllocWorkspace" not in before
    assert merged.script().count("TVMBackendAllocWorkspace") >= 3
    run = compiled(merged)
    rng = np.random.default_rng(0)
    for n in (1, 2, 4, 6, 8, 9):
        x = rng.standard_normal((n, 128)).astype("float32")
        y = tvm.runtime.tensor(np.full((n, 128), np.nan, "float32"))
        run(tvm.runtime.tensor(x), y)
        e = np.exp(x)
        np.testing.assert_allclose(y.numpy(), e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("build", "shape"), [
    (lambda x, _: nn.softmax(x, 1), (4, 4)),
    (lambda x, w: op.matmul(x, w), (64, 48)),
])  # fmt: skip
def test_scheduled_kernels_are_merged(build: Any, shape: tuple[int, int]) -> None:
    """Their vectors and tiles go through the lowering that places workspaces."""
    func = kernel(build, [("n", 64), shape])
    target = tvm.target.Target("llvm")

    def made(f: Any) -> Any:
        done = schedule(f, target)
        return copied(f) if isinstance(done, Refusal) else done.func

    padded = [p for p in [pad_safe(func, "n")] if isinstance(p, PaddingProof)]
    variants: list[Variant] = [
        Exact(made(bind(func, {"n": 4})), {"n": 4}),
        Bucket(made(bind(func, {"n": 16})), {"n": 16}, padded, {"n": 9}),
    ]
    run, plain = compiled(merge(made(func), variants)), compiled(func)
    rng = np.random.default_rng(0)
    for n in (1, 4, 9, 13, 16, 17):
        shapes = [
            [n if not hasattr(e, "value") else int(e) for e in p.ty.shape] for p in func.params
        ]
        *given, got = (tvm.runtime.tensor(rng.standard_normal(s).astype("float32")) for s in shapes)
        run(*given, got)
        want = tvm.runtime.tensor(np.zeros(shapes[-1], "float32"))
        plain(*given, want)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_the_functions_given_are_not_changed() -> None:
    func, variant = marked(9), marked(1, n=4, m=2)
    before = [f.script() for f in (func, variant)]
    merge(func, [Exact(variant, {"n": 4, "m": 2}), Exact(variant, {"n": 4, "m": 2})])
    assert [f.script() for f in (func, variant)] == before


def test_attributes_stay() -> None:
    func = marked(9).with_attr("global_symbol", "name").with_attr("op_pattern", 2)
    merged = merge(func, [Exact(marked(1, n=4, m=2), {"n": 4, "m": 2})])
    assert merged.attrs["global_symbol"] == "name" and int(merged.attrs["op_pattern"]) == 2
    assert merged.attrs["tirx.noalias"] and len(merged.params) == 2


GOOD = {"n": 4, "m": 2}


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (lambda: Exact(marked(1, n=5, m=2), GOOD),
         r"parameter 0 \(x0\) of variant 0 .* float32\[5, 2\], expected float32\[4, 2\]"),
        (lambda: Exact(marked(1), GOOD), "has the symbolic dimension n, expected a static"),
        (lambda: Exact(marked(1, n=4, m=2), {"n": 4}), "has values for"),
        (lambda: Ranged(marked(1), {"q": Span(1, 4)}), "names the dimensions"),
        (lambda: Exact(bind(kernel(op.add, [("n", 2), ("n", 2)]), {"n": 4}), GOOD),
         "has 3 parameters, expected 2"),
        (lambda: Exact(bind(kernel(lambda x: op.astype(x, "float16"), [("n", "m")]), GOOD), GOOD),
         r"parameter 1 .* float16\[4, 2\], expected float32\[4, 2\]"),
        (lambda: Ranged(kernel(lambda x: nn.relu(x), [("n", "n")]), {"n": Span(1, 4)}),
         r"parameter 0 .*, expected float32\[n, m\]"),
        (lambda: Bucket(marked(1, n=4, m=2), GOOD, [PaddingProof("q", (), ())]), "pads"),
        (lambda: Bucket(marked(1, n=4, m=2), GOOD,
                        [PaddingProof("n", (GrownParameter(0, (0,), 0.0),), ()),
                         PaddingProof("m", (GrownParameter(0, (1,), 1.0),), ())]),
         "must be both 0.0 and 1.0"),
    ],
)  # fmt: skip
def test_a_variant_that_does_not_fit_is_refused(variant: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merge(marked(9), [variant()])


@pytest.mark.parametrize(("low", "high", "multiple"), [(0, 4, 1), (5, 4, 1), (1, 4, 0)])
def test_a_span_is_checked(low: int, high: int, multiple: int) -> None:
    with pytest.raises(ValueError, match="span"):
        Span(low, high, multiple)


# ------------------------------------------------------------------------ deployed

FRESH = """
import ctypes, importlib.util, os, sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm_ffi
lib = os.path.join(os.path.dirname(importlib.util.find_spec("tvm_ffi").origin), "..", "tvm", "lib")
ctypes.CDLL(os.path.join(lib, "libtvm_runtime.so"), ctypes.RTLD_GLOBAL)

def aligned(a):
    memory = np.empty(a.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    out = memory[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out

machine = tvm_ffi.load_module(sys.argv[1])["vm_load_executable"]()
machine["vm_initialization"](1, 0, 2)
rng = np.random.default_rng(0)
weights = [aligned(rng.standard_normal(s).astype("float32")) for s in ((16, 32), (32,))]
for n in (1, 4, 7, 8, 12, 16, 30):
    x = aligned(rng.standard_normal((n, 16)).astype("float32"))
    y = np.from_dlpack(machine["main"](*map(tvm_ffi.from_dlpack, (x, *weights))))
    np.testing.assert_allclose(y, np.maximum(x @ weights[0] + weights[1], 0), rtol=1e-4, atol=1e-5)
mapped = {line.split()[-1].rsplit("/", 1)[-1] for line in open("/proc/self/maps") if ".so" in line}
assert any("libtvm_runtime" in m for m in mapped), mapped
assert not any("libtvm_compiler" in m for m in mapped), mapped
assert "tvm" not in sys.modules and "opinfo" not in sys.modules
print("ran")
"""


def test_a_library_runs_where_there_is_only_the_runtime(tmp_path: Path) -> None:
    mod = fused(
        module(lambda x, w, b: nn.relu(op.add(op.matmul(x, w), b)), [("n", 16), (16, 32), (32,)])
    )
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            padded = pad_safe(func, "n")
            assert isinstance(padded, PaddingProof)
            variants: list[Variant] = [
                Exact(bind(func, {"n": 4}), {"n": 4}),
                Bucket(bind(func, {"n": 8}), {"n": 8}, [padded], {"n": 6}),
                Ranged(func, {"n": Span(12, 16, 4)}),
            ]
            mod.update_func(gvar, merge(func, variants))
    path = tmp_path / "model.so"
    tvm.compile(mod, "llvm").export_library(str(path))
    done = subprocess.run([sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "ran"
