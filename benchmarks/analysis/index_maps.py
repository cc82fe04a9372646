"""Invert random index maps and compare with enumeration.

    python -m benchmarks.index_maps [--maps 10000] [--mutants 2000] [--symbolic 1000] [--json FILE]

Prints, for each kind, how many answers were wrong, unknown and inverted, and the time each took.
Wrong: another verdict than numpy's enumeration of the Python function gives, or an inverse that is
wrong at some coordinate. Weaker: ``injective`` is said of a map that is also onto (of symbolic
maps, when the smallest output box is not found).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from rich.progress import track
from tvm.tirx import IndexMap

from opinfo.analysis import invert
from tests.analysis.index_map import corpus, fuzz, symbolic_fuzz
from tests.analysis.index_map.arithmetic_maps import large as large_maps
from tests.analysis.index_map.oracle import as_map, as_python, truth, undone_everywhere

ALLOWED = (("injective", "bijective"),)
"""True but less than could be said: a box that is not known to be the smallest."""
INSTANCES = ({"n": 1, "m": 3}, {"n": 2, "m": 2}, {"n": 3, "m": 5}, {"n": 5, "m": 4})


@dataclass
class Tally:
    """Counts and times of one kind of map."""

    kind: str
    wrong: int = 0
    weaker: int = 0
    unknown: int = 0
    inverted: int = 0
    invertible: int = 0
    ms: list[float] = field(default_factory=list)
    methods: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, name: str, expected: str, certificate: Any, ms: float, right: bool) -> None:
        self.ms.append(ms)
        self.invertible += expected != "not_injective"
        if certificate.verdict == "unknown":
            self.unknown += 1
        elif not right or (certificate.verdict, expected) not in (*ALLOWED, (expected, expected)):
            self.wrong += 1
        elif certificate.verdict != expected:
            self.weaker += 1
            self.inverted += certificate.inverse is not None
        elif certificate.inverse is not None:
            self.inverted += 1
            method = certificate.method
            self.methods[method] = self.methods.get(method, 0) + 1
            return
        elif expected == "not_injective":
            return
        self.failures.append(f"{name}: {certificate.verdict}, expected {expected}")

    def summary(self) -> dict[str, Any]:
        times = sorted(self.ms)
        return {
            "kind": self.kind,
            "maps": len(times),
            "wrong": self.wrong,
            "weaker": self.weaker,
            "unknown": self.unknown,
            "invertible": self.invertible,
            "inverted_share": self.inverted / max(self.invertible, 1),
            "median_ms": statistics.median(times),
            "p95_ms": times[int(0.95 * (len(times) - 1))],
            "max_ms": times[-1],
            "methods": self.methods,
            "failures": self.failures[:20],
        }


def timed(fn: Any, shape: tuple[Any, ...]) -> tuple[Any, float]:
    """The certificate of a map that TVM already knows, and the milliseconds it took."""
    source = as_map(fn, len(shape))
    start = time.perf_counter()
    certificate = invert(source, shape)
    return certificate, (time.perf_counter() - start) * 1e3


def is_right(certificate: Any, fn: Any, shape: tuple[int, ...], sizes: Any = None) -> bool:
    """Whether the inverse undoes the function at every coordinate."""
    inverse = certificate.inverse
    if inverse is None:
        return True
    back: Callable[..., Any] = (
        as_python(inverse, sizes) if isinstance(inverse, IndexMap) else inverse
    )
    return undone_everywhere(back, fn, shape) is None


def literal(kind: str, maps: Iterator[fuzz.Random], total: int) -> Tally:
    tally = Tally(kind)
    for m in track(maps, kind, total):
        certificate, ms = timed(m.fn, m.shape)
        expected = truth(m.fn, m.shape)
        tally.add(m.name, expected, certificate, ms, is_right(certificate, m.fn, m.shape))
    return tally


def symbolic(count: int) -> Tally:
    tally = Tally("symbolic")
    for seed in track(range(count), "symbolic"):
        m = symbolic_fuzz.symbolic(seed)
        sizes = {s: tvm.tirx.Var(s, "int64") for s in "nm"}
        certificate, ms = timed(*m.build(sizes))
        right = all(is_right(certificate, *m.build(dict(k)), k) for k in INSTANCES)
        tally.add(m.name, "bijective", certificate, ms, right)
    return tally


def the_corpus() -> Iterator[Tally]:
    """The corpus, literal and symbolic apart; large domains are compared by verdict only."""
    tallies = {s: Tally(f"corpus-{s}") for s in ("literal", "large", "symbolic")}
    large = {c.name for c in large_maps()}
    for case in track(corpus.corpus(), "corpus"):
        fn, shape = case.build(*(tvm.tirx.Var(s, "int64") for s in case.sizes))
        certificate, ms = timed(fn, shape)
        right = True
        if not case.sizes and case.name not in large:
            right = is_right(certificate, fn, shape)
        kind = "symbolic" if case.sizes else "large" if case.name in large else "literal"
        tallies[kind].add(case.name, case.truth, certificate, ms, right)
    return iter(tallies.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--maps", type=int, default=10_000)
    parser.add_argument("--mutants", type=int, default=2_000)
    parser.add_argument("--symbolic", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    invert(lambda i: (i,), [4])
    tallies = [
        *the_corpus(),
        literal("bijective", (fuzz.bijective(s) for s in range(args.maps)), args.maps),
        literal("mutants", (fuzz.mutant(s) for s in range(args.mutants)), args.mutants),
        symbolic(args.symbolic),
    ]
    rows = [t.summary() for t in tallies if t.ms]
    for row in rows:
        print(
            f"{row['kind']:16} {row['maps']:6} maps  wrong {row['wrong']}  weaker {row['weaker']}"
            f"  unknown {row['unknown']}"
            f"  inverted {row['inverted_share']:.4%}  median {row['median_ms']:.2f} ms"
            f"  p95 {row['p95_ms']:.2f} ms  max {row['max_ms']:.0f} ms  {row['methods']}"
        )
        for failure in row["failures"]:
            print("   ", failure)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
