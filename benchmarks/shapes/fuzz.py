"""Run random chains over symbolic shapes by every strategy, against TVM's own build.

    python -m benchmarks.shapes.fuzz [--count 200] [--seed 0] [--only SEED]

Each seed is a chain of operators over n and m (`tests.jit.padding.graphs`) and a strategy: a
generic schedule, buckets, ranges, padded buckets, or kernels compiled for the requested shapes. It
is called at every pair of a few sizes: buckets, and sizes between and beyond them. Exits with 1 if
an output differs, or if only TVM alone can compile and run the module.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from itertools import product
from random import Random
from typing import Any

os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import tvm
from tvm import relax, tirx

from opinfo.byoc.dims.symbolic_dims import variables
from opinfo.jit import Aot, Config, Dim, Generic, Jit, Session, compile_shapes
from opinfo.jit.aot.merge import replaced
from opinfo.jit.kernels.compiler import Compiler
from tests.jit.padding import graphs

SIZES = (1, 2, 3, 4, 6, 8, 9, 17)
STRATEGIES: dict[str, Any] = {
    "generic": Generic(),
    "buckets": Aot({"n": (1, 3, 8), "m": (2, 4)}),
    "ranges": Aot({"n": (6,)}, ranges={"n": ((2, 4), (8, 64, 8), (5, 17)), "m": ((3, 9, 3),)}),
    "padded": Aot({"n": (4, 8), "m": (3, 9)}, pad=True),
    "padded, finite": Aot({"n": (4, 8), "m": (3, 9)}, pad=True, finite=True),
    "jit": Jit("eager", threshold=1),
}
#: Accepted difference, relative to the largest value of an output.
WITHIN = 1e-3


def arrays(main: Any, sizes: dict[str, int], seed: int) -> list[Any]:
    """Return small integers, whose sums are exact, and 0, which is an index of every tensor.

    With inexact sums, rounding next to a discontinuity would look like a fault.
    """
    rng = np.random.default_rng(seed)
    out = []
    for param in main.params:
        shape = [int(e) if isinstance(e, tirx.IntImm) else sizes[e.name] for e in param.ty.shape]
        if str(param.ty.dtype).startswith("float"):
            out.append(rng.integers(-3, 4, shape).astype(str(param.ty.dtype)))
        else:
            out.append(np.zeros(shape, str(param.ty.dtype)))
    return out


def different(got: Any, right: Any) -> str:
    """Return how an output differs, or "" if it is close."""
    a, b = got.numpy().astype("float64"), right.numpy().astype("float64")
    if a.shape != b.shape:
        return f"shape {a.shape}, not {b.shape}"
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)):
        return "other places are finite"
    worst = float(np.abs(a - b, where=finite, out=np.zeros_like(a)).max(initial=0))
    largest = float(np.abs(b, where=finite, out=np.zeros_like(b)).max(initial=1))
    return f"by {worst:.3g} of {largest:.3g}" if worst > WITHIN * largest else ""


def empty(main: Any, sizes: dict[str, int]) -> bool:
    """Return whether an inner tensor is empty, because TVM does not initialise an empty sum."""
    flags: list[bool] = []

    def visit(expr: Any) -> None:
        shape = getattr(getattr(expr, "ty", None), "shape", None)
        for extent in getattr(shape, "values", ()):
            named = [(v, tirx.IntImm("int64", sizes[v.name])) for v in variables(extent)]
            flags.append(int(replaced(extent, named)) < 1)

    relax.analysis.post_order_visit(main, visit)
    return any(flags)


def symbols(main: Any) -> list[str]:
    return sorted({e.name for p in main.params for e in p.ty.shape if isinstance(e, tirx.Var)})


def tried(seed: int, compiler: Compiler) -> tuple[str, str]:
    """Run a seed; return its strategy and the outcome: "equal", "not run by TVM" or the fault."""
    rng = Random(seed)
    mod = graphs.module(rng, rng.choice((1, 2, 3, 5, 8)))
    kind = rng.choice(list(STRATEGIES))
    dims = symbols(mod["main"])
    pairs = [dict(zip(dims, s, strict=True)) for s in product(SIZES, repeat=len(dims))]
    pairs = [p for p in pairs if not empty(mod["main"], p)]
    pairs = rng.sample(pairs, min(16, len(pairs)))
    try:
        plain = relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())["main"]
        right = [plain(*map(tvm.runtime.tensor, arrays(mod["main"], p, seed))) for p in pairs]
    except Exception as error:  # TVM may raise anything
        return kind, f"not run by TVM: {type(error).__name__}"
    config = Config(
        _named(STRATEGIES[kind], dims),
        dims={d: Dim(1, None, 1, (2, 8)) for d in dims} if kind == "jit" else {},
    )
    try:
        compiled = compile_shapes(mod, config)
        with Session(compiled, compiler=compiler) as session:
            for turn in range(2 if kind == "jit" else 1):
                for extents, expected in zip(pairs, right, strict=True):
                    fault = different(session(*arrays(mod["main"], extents, seed)), expected)
                    if fault:
                        return kind, f"WRONG at {extents}, round {turn}: {fault}"
                session.settle()
            failed = [e.why for e in session.stats().events if e.what == "failed"]
    except Exception as error:
        return kind, f"FAILED: {type(error).__name__}: {str(error)[-300:]}"
    if failed:
        return kind, f"KERNEL: {failed[0]}"
    count = sum(f.strategy == config.default for f in compiled.functions)
    return kind, f"equal, {'some' if count else 'no'} function by it"


def _named(strategy: Any, dims: list[str]) -> Any:
    """Restrict the buckets and ranges of a strategy to existing dimensions."""
    if not isinstance(strategy, Aot):
        return strategy
    buckets = {d: strategy.buckets[d] for d in dims if d in strategy.buckets}
    ranges = {d: strategy.ranges[d] for d in dims if d in strategy.ranges}
    return Aot(buckets, strategy.pad, strategy.finite, ranges=ranges)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    seeds = (
        range(options.seed, options.seed + options.count)
        if options.only is None
        else [options.only]
    )
    counts: Counter[str] = Counter()
    bad, start, compiler = 0, time.monotonic(), Compiler()
    for seed in seeds:
        kind, outcome = tried(seed, compiler)
        if outcome.startswith(("WRONG", "FAILED", "KERNEL")):
            bad += 1
            print(f"seed {seed}: {kind}: {outcome}", flush=True)
        counts[f"{kind}: {outcome.partition(':')[0]}"] += 1
    compiler.close()
    for what, count in sorted(counts.items()):
        print(f"{count:6} {what}")
    print(f"{len(seeds)} chains, {bad} wrong or failed, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
