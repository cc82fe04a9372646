"""Mutants of operators of all families: how many are answered, how many of them wrongly.

    python -m benchmarks.mutants [--limit 40] [--only conv]

A mutant is an operator's PrimFunc with one change in its script (a literal, an operation, an index,
a guard, a store). What it computes is told by an interpreter that shares nothing with the library.
Fails if an answer about a mutant computes something else than the mutant.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from opinfo.analysis import OpInfo, op_info
from tests.mutants import mutants
from tests.mutation import CASES, feeds, legalised, outputs, trial


def main() -> None:
    """Run, print a line an operator, exit 1 on any wrong answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=int, default=40, help="mutants of one operator")
    parser.add_argument("--only", default="", help="only operators with this in their name")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for name in CASES:
        if options.only in name:
            counts = measure(name, options.limit)
            total += counts
            print(f"{name:18}" + "  ".join(f"{k} {n}" for k, n in counts.items()), flush=True)
    print("  ".join(f"{k} {n}" for k, n in total.items()))
    sys.exit(int(total["wrong"] > 0))


def measure(name: str, limit: int) -> Counter[str]:
    """Mutants tried, different from the operator, answered as another operator, and wrong."""
    build, shapes, _ = CASES[name]
    original = legalised(build, shapes)
    truth, inputs = op_info(original), feeds(shapes)
    expected = [outputs(original, i) for i in inputs]
    chosen = list(mutants(original))
    counts: Counter[str] = Counter()
    for change, mutant in chosen[:: max(1, len(chosen) // limit)]:
        found = trial(mutant, truth, inputs, expected)
        counts["mutants"] += 1
        counts["different"] += found.different
        counts["answered"] += found.different and isinstance(found.info, OpInfo)
        if found.wrong:
            counts["wrong"] += 1
            print(f"WRONG {name}, {change}: {found.wrong}", flush=True)
    return counts


if __name__ == "__main__":
    main()
